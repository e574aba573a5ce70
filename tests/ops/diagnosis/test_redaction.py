"""Secrets leave, consistently; what a diagnosis needs stays."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.ops.diagnosis.redaction import Redactor
from tests.ops.diagnosis.given import SAMPLES

WORD = st.text(string.ascii_lowercase, min_size=6, max_size=12).map(lambda text: f"q{text}z")
TOKEN = st.text(string.ascii_letters + string.digits, min_size=8, max_size=24).map(lambda text: f"X{text}9")
BYTE = st.integers(0, 255)

FORMS = {
    "password": (TOKEN, ["password={s}", "PASSWD: {s}", '"password": "{s}"', "psk='{s}'", "--token {s}", "api_key={s} next", "wifi_secret: {s}", "Authorization: Bearer {s}"]),
    "ssid": (TOKEN, ['ssid="{s}"', "SSID: {s}", "wpa: ESSID={s}, level"]),
    "serial": (TOKEN, ["SerialNumber: {s}", "serial: {s}", "androidboot.serialno={s} x", "Serial\t\t: {s}", "S/N: {s}"]),
    "user": (WORD, ["/home/{s}/models/x.gguf", "uid=1000({s}) gid=1000({s}) groups=1000({s}),27(sudo)", "USER={s}", "{s}@board-7:~$ ls"]),
    "host": (WORD, ["Nov 29 21:58:26 {s} kernel: RKNPU: soft reset", '"_HOSTNAME":"{s}"', "systemd[1]: Hostname set to <{s}>.", "someone@{s}:~$ ls"]),
    "ip": (st.tuples(*[st.integers(2, 254)] * 4).map(lambda t: ".".join(map(str, t))).filter(lambda t: not t.startswith("127.")), ["connect {s}:22", "ip={s}", "from {s}.", "http://{s}/x"]),
    "ip6": (st.tuples(*[st.integers(4096, 65535)] * 4).map(lambda t: "fe80::" + ":".join(f"{x:x}" for x in t)), ["inet6 {s}/64", "[{s}]:22", "to {s} port 1"]),
    "mac": (st.tuples(*[BYTE] * 6).map(lambda t: ":".join(f"{x:02x}" for x in t)), ["ether {s} txqueuelen", "end0: {s}", "mac={s}"]),
    "uuid": (st.uuids().map(str), ["root=UUID={s} ro", "boot_id: {s}", "machine {s} ok"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMS)
@given(data=st.data())
def test_no_secret_survives_and_the_same_one_is_the_same_everywhere(kind: str, data: st.DataObject) -> None:
    values, forms = FORMS[kind]
    secret = data.draw(values)
    one, other = data.draw(st.sampled_from(forms)), data.draw(st.sampled_from(forms))
    redactor = Redactor()
    texts = redactor.redact(
        {"a.txt": f"before\n{one.format(s=secret)}\nafter\n", "b.txt": other.format(s=secret)}
    )
    assert secret.lower() not in (texts["a.txt"] + texts["b.txt"]).lower()
    assert texts["a.txt"].startswith("before\n") and texts["a.txt"].endswith("\nafter\n")
    if kind != "password" or redactor.counts.get("secret"):
        placeholders = {word for text in texts.values() for word in _placeholders(text, kind)}
        assert len(placeholders) == 1


def _placeholders(text: str, kind: str) -> set[str]:
    name = {"password": "secret", "ip6": "ip"}.get(kind, kind)
    return {part.split(">")[0] for part in text.split("<")[1:] if part.startswith(f"{name}-1>")}


@given(WORD, TOKEN)
def test_known_names_go_wherever_they_stand(host: str, serial: str) -> None:
    redactor = Redactor(hosts=[host], users=["jane"], others=[serial])
    text = redactor.redact({"x": f"mount of {host} by jane: disk {serial}; janet stays"})["x"]
    assert host not in text and serial not in text and "by jane" not in text and "janet stays" in text
    assert redactor.counts == {"host": 1, "serial": 1, "user": 1}


def test_two_secrets_get_two_placeholders() -> None:
    text = Redactor().redact({"x": "from 10.0.0.7 to 10.0.0.9 and 10.0.0.7"})["x"]
    assert text == "from <ip-1> to <ip-2> and <ip-1>"


@pytest.mark.parametrize(
    "text",
    [
        "RKNPU driver: v0.9.8",
        "Linux version 6.1.115-vendor-rk35xx",
        "E RKNN: [10:02:11.480] failed",
        "/proc/device-tree/npu@fdab0000/status: okay",
        "RKNPU fdab0000.npu: RKNPU: rknpu iommu is enabled",
        "0000:00:00.0 pci bridge",
        "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x412fd050]",
        "127.0.0.1 localhost",
        "uid=0(root) gid=0(root) groups=0(root)",
        "iova: 0x00000000f2000000 already mapped to 0x000000019c4a3000",
        "std::vector failed: use std::move",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor(hosts=["localhost", ""], users=["root"]).redact({"x": text})["x"] == text


@pytest.mark.parametrize("name", ["npu", "job", "reset", "kernel"])
def test_a_name_that_is_a_word_of_the_log_does_not_break_it(name: str) -> None:
    log = (SAMPLES / "dmesg-reset-storm.txt").read_text()
    texts = Redactor(hosts=[name], users=[name]).redact({"dmesg.txt": log, "x": f"/home/{name}/m.gguf"})
    assert texts["dmesg.txt"] == log
    assert name in ("kernel",) or name not in texts["x"]


@given(st.text(max_size=400))
def test_any_text_is_survived_and_redaction_settles(text: str) -> None:
    once = Redactor().redact({"x": text})["x"]
    assert Redactor().redact({"x": once})["x"].count("<") >= once.count("<") - text.count("<")
