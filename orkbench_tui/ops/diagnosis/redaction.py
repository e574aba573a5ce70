"""Secrets out of captured texts, consistently: the same secret gives the same placeholder everywhere.

What goes: passwords, keys and tokens, IP and MAC addresses, serial numbers, UUIDs and machine ids, user names,
host names, network names (SSID), e-mail addresses. What stays is what a diagnosis needs: processes, nodes,
addresses of the NPU, versions, times.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable

__all__ = ["Redactor"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Accounts every system has; naming them tells nothing.
_COMMON_USERS = frozenset(
    [
        "root",
        "user",
        "nobody",
        "daemon",
        "bin",
        "sys",
        "adm",
        "sync",
        "games",
        "man",
        "lp",
        "mail",
        "news",
        "proxy",
        "www-data",
        "backup",
        "list",
        "irc",
        "systemd-network",
        "messagebus",
        "sshd",
        "video",
        "render",
        "audio",
        "sudo",
        "users",
        "plugdev",
        "input",
        "dialout",
        "staff",
        "tty",
        "disk",
        "kmem",
    ]
)
# Words of the readings themselves. A person or host of this name is replaced where the text says that it is one,
# and nowhere else: else the bundle could not be diagnosed.
_READING_WORDS = _words(
    "npu rknpu rkllm rknn kernel iommu iova cma dmc ddr gpu cpu core cores mask job jobs timeout time reset soft num "
    "flags irq status raw require task counter elapsed wait commit domain id switch from to failed allocate dma map fail "
    "render card dev dri sys proc class devfreq governor policy thermal zone type temp load version driver page fault "
    "read write memory process killed out of oom linux rockchip radxa platform drm initialized for on minor error hunk "
    "patching file succeeded at with fuzz pid stat command comm d s warning info call trace rocket accel state max min"
)
_COMMON_HOSTS = frozenset({"localhost", "kernel", "host", "board", ""})

_UUID = re.compile(r"(?<![0-9A-Za-z-])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9A-Za-z-])")
_PARTUUID = re.compile(r"(?i)\b((?:PART)?UUID=\"?)([0-9a-f]{4,8}-[0-9a-f]{2,4})(?![0-9a-f-])")
_MAC = re.compile(
    r"(?<![0-9A-Fa-f:-])(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:-])"
)
_IPV4 = re.compile(
    r"(?<![\w.])(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}(?![\w]|\.\d)", re.ASCII
)
_IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:)[0-9A-Fa-f:]{2,39}(?:\d{1,3}(?:\.\d{1,3}){3})?(?:%\w+)?(?![\w:])"
)
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
_SECRET = re.compile(
    r"(?i)\b([\w-]{0,40}(?:passw(?:or)?d|passphrase|passwd|secret|token|api[_-]?key|private[_-]?key|psk|wpa[_-]?key|pin[_-]?code)"
    r"[\w-]{0,20}['\"]?\s*(?:[=:]|\s(?=['\"]))\s*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&\"'}]+)"
)
_FLAG = re.compile(
    r"(?i)((?:^|\s)--?(?:password|passwd|token|secret|api-key)[ =]+)(\"[^\"\n]*\"|'[^'\n]*'|\S+)"
)
_AUTH = re.compile(r"(?i)\b((?:authorization: *)?(?:bearer|basic) +)([A-Za-z0-9._~+/=-]{6,})")
_KEYS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}|ssh-(?:rsa|ed25519) [A-Za-z0-9+/=]{20,})"
)
_URL_USER = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://)([^/\s:@]{1,64})(?::([^/\s@]{0,128}))?@")
_SERIAL = re.compile(
    r"(?i)\b((?:serial(?:[ _-]?(?:number|no|num))?|serialnumber|androidboot\.serialno|s/n|cpuid|chip[ _-]?id|machine[ _-]?id|_MACHINE_ID|imei)"
    r"['\"]?\s*[:=]\s*['\"]?)([0-9A-Za-z][0-9A-Za-z._/-]{3,63})"
)
_SSID = re.compile(r"(?i)\b(e?ssid['\"]?\s*[:=]\s*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;]+)")
_HOME = re.compile(r"(/(?:home|Users|media|run/media)/)([A-Za-z_][\w.-]{0,31})")
_ID = re.compile(r"\b((?:uid|gid|euid|egid)=\d+\()([^)\s]+)(\))")
# Not the nodes of a device tree, npu@fdab0000.
_AT = re.compile(
    r"(?<![/\w.@-])([a-z_][\w-]{0,31})@(?![0-9a-f]{6,16}\b)([A-Za-z0-9][A-Za-z0-9-]{0,62})(?=[:\s~$#]|$)"
)
_USER_KEY = re.compile(
    r"(?i)\b((?:user(?:name)?|login|logname|SUDO_USER)['\"]?\s*[=:]\s*['\"]?)([A-Za-z_][\w.-]{0,31})\b(?!\()"
)
_SYSLOG_HOST = re.compile(
    r"(?m)^((?:[A-Z][a-z]{2}\s+\d{1,2} [\d:.]{8,18}|\d{4}-\d{2}-\d{2}T\S+|\[\s*\d+\.\d+\]) )([\w.-]{1,64})( (?:kernel|systemd|sudo|sshd)(?:\[\d+\])?:)"
)
_HOST_KEY = re.compile(r"(?i)(\b_?hostname['\"]?\s*(?:[=:]|set to)\s*[<'\"]?)([A-Za-z0-9][\w.-]{0,63})")
_LONG_HEX_KEY = re.compile(
    r"(?i)((?:_BOOT_ID|_MACHINE_ID|boot_id|__CURSOR|machine-id)['\"]?\s*[:=]\s*['\"]?)([0-9a-zA-Z=;-]{16,400})"
)


class Redactor:
    """Replaces secrets by ``<kind-N>``. One instance for one bundle, so that placeholders agree between files."""

    def __init__(
        self, *, hosts: Iterable[str] = (), users: Iterable[str] = (), others: Iterable[str] = ()
    ) -> None:
        self._numbers: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._words: dict[str, str] = {}
        for kind, values in (("host", hosts), ("user", users), ("serial", others)):
            for value in values:
                self._learn(kind, value.strip())

    @property
    def counts(self) -> dict[str, int]:
        """Different secrets replaced so far, by kind."""
        return dict(sorted(self._counts.items()))

    def redact(self, texts: dict[str, str]) -> dict[str, str]:
        """All texts of a bundle. Names learnt in one are replaced in all, so it takes two passes."""
        once = {name: self._by_pattern(text) for name, text in texts.items()}
        # Board names in the device tree are no secrets, although many hosts are called after their board.
        return {
            name: text if name == "compatible.txt" else self._by_word(text) for name, text in once.items()
        }

    def _placeholder(self, kind: str, value: str) -> str:
        key = (kind, value.lower())
        if key not in self._numbers:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._numbers[key] = f"<{kind}-{self._counts[kind]}>"
        return self._numbers[key]

    def _learn(self, kind: str, value: str) -> str:
        """Remember a name to be replaced wherever it stands as a word; common ones stay."""
        common = _COMMON_USERS if kind == "user" else _COMMON_HOSTS
        if value.lower() in common or len(value) < 2 or value.startswith("<"):
            return value
        placeholder = self._placeholder(kind, value)
        if value.lower() not in _READING_WORDS:
            self._words[value] = placeholder
        return placeholder

    def _by_pattern(self, text: str) -> str:
        def value_of(kind: str) -> Callable[[re.Match[str]], str]:
            return lambda found: found[1] + self._placeholder(kind, found[2].strip("\"'"))

        text = _URL_USER.sub(self._url, text)
        for pattern in (_AUTH, _SECRET, _FLAG):
            text = pattern.sub(self._secret, text)
        text = _KEYS.sub(lambda m: self._placeholder("secret", m[0]), text)
        text = _SSID.sub(value_of("ssid"), text)
        text = _LONG_HEX_KEY.sub(value_of("uuid"), text)
        text = _SERIAL.sub(self._serial, text)
        text = _UUID.sub(lambda m: self._placeholder("uuid", m[0]), text)
        text = _PARTUUID.sub(value_of("uuid"), text)
        text = _MAC.sub(lambda m: self._placeholder("mac", m[0].replace("-", ":")), text)
        text = _MAIL.sub(lambda m: self._placeholder("mail", m[0]), text)
        text = _IPV4.sub(self._ip, text)
        text = _IPV6.sub(self._ip, text)
        text = _HOME.sub(lambda m: m[1] + self._learn("user", m[2]), text)
        text = _ID.sub(lambda m: m[1] + self._learn("user", m[2]) + m[3], text)
        text = _USER_KEY.sub(lambda m: m[1] + self._learn("user", m[2]), text)
        text = _SYSLOG_HOST.sub(lambda m: m[1] + self._learn("host", m[2]) + m[3], text)
        text = _HOST_KEY.sub(lambda m: m[1] + self._learn("host", m[2]), text)
        return _AT.sub(lambda m: f"{self._learn('user', m[1])}@{self._learn('host', m[2])}", text)

    def _by_word(self, text: str) -> str:
        for word in sorted(self._words, key=len, reverse=True):
            if word in text:
                text = re.sub(rf"(?<![\w<]){re.escape(word)}(?![\w>])", self._words[word], text)
        return text

    def _secret(self, found: re.Match[str]) -> str:
        value = found[2].strip("\"'")
        return (
            found[0] if not value or value.startswith("<") else found[1] + self._placeholder("secret", value)
        )

    def _serial(self, found: re.Match[str]) -> str:
        value = found[2]
        # Words such as `serial: disabled` and device names are no numbers.
        if not any(c.isdigit() for c in value) or re.fullmatch(r"tty\w+|\d{1,4}|[0-9a-f]+\.\w+", value):
            return found[0]
        self._words[value] = self._placeholder("serial", value)
        return found[1] + self._words[value]

    def _url(self, found: re.Match[str]) -> str:
        user = self._placeholder("user", found[2])
        secret = f":{self._placeholder('secret', found[3])}" if found[3] else ""
        return f"{found[1]}{user}{secret}@"

    def _ip(self, found: re.Match[str]) -> str:
        text = found[0]
        try:
            address = ipaddress.ip_address(text.split("%", 1)[0])
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified:
            return text
        return self._placeholder("ip", str(address))
