"""The shell scripts that lie beside the kernels, so that going back works without this program.

POSIX sh; ROOT is the folder the disk is at ("" on the board itself). Both read ``key=value`` state files.
"""

from __future__ import annotations

__all__ = ["ROLLBACK_SCRIPT", "TRIAL_SCRIPT_TEXT", "UNIT", "UNIT_LINK", "UNIT_PATH", "UNIT_TEXT"]

UNIT = "ork-kernel-trial.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"
UNIT_LINK = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"

ROLLBACK_SCRIPT = r"""#!/bin/sh
# Points the boot links (or the boot menu) back to the kernel that was there before.
# usage: rollback.sh [--stock] [--dry-run]     run it twice and nothing changes the second time
set -u
root="${ROOT:-}"
own="$root/boot/npu-workbench"
state="$own/prev.state"
dry=""
for word in "$@"; do
    case "$word" in
        --stock) state="$own/stock.state" ;;
        --dry-run) dry=yes ;;
        *) echo "rollback.sh: unknown word $word" >&2; exit 2 ;;
    esac
done
[ -r "$state" ] || { echo "rollback.sh: $state is not there: nothing to go back to" >&2; exit 7; }

value() { sed -n "s|^$1=||p" "$state" | head -n 1; }

# Everything is looked at before anything is changed.
layout=$(value layout)
links=""
case "$layout" in
    links)
        for name in Image uInitrd dtb; do
            target=$(value "link.$name")
            [ -n "$target" ] || continue
            if [ ! -e "$root/boot/$target" ]; then
                echo "rollback.sh: $root/boot/$target is not there; nothing was changed" >&2
                exit 7
            fi
            links="$links $name"
        done
        ;;
    menu)
        menu="$root/boot/extlinux/extlinux.conf"
        label=$(value default)
        grep -Eq "^[[:space:]]*label[[:space:]]+$label[[:space:]]*\$" "$menu" 2>/dev/null || {
            echo "rollback.sh: $menu has no label $label; nothing was changed" >&2
            exit 7
        }
        ;;
    *) echo "rollback.sh: $state says layout $layout, which this script does not know" >&2; exit 7 ;;
esac

for name in $links; do
    target=$(value "link.$name")
    now=$(readlink "$root/boot/$name" || echo nothing)
    if [ "$now" = "$target" ]; then
        echo "/boot/$name: $now, as it was"
        continue
    fi
    echo "/boot/$name: $now -> $target"
    [ -n "$dry" ] && continue
    rm -f "$root/boot/.$name.ork-new"
    ln -s "$target" "$root/boot/.$name.ork-new" && mv -fT "$root/boot/.$name.ork-new" "$root/boot/$name" || exit 1
    sync
done

if [ "$layout" = menu ]; then
    now=$(sed -n 's/^[[:space:]]*default[[:space:]]*//p' "$menu" | head -n 1)
    if [ "$now" = "$label" ]; then
        echo "boot menu: default $now, as it was"
    else
        echo "boot menu: default $now -> $label"
        if [ -z "$dry" ]; then
            sed "s/^\([[:space:]]*\)default[[:space:]].*/\1default $label/" "$menu" >"$menu.ork-new" || exit 1
            sync
            mv -f "$menu.ork-new" "$menu" || exit 1
            sync
        fi
    fi
fi

[ -n "$dry" ] || rm -f "$own/trial.state"
exit 0
"""

TRIAL_SCRIPT_TEXT = r"""#!/bin/sh
# Runs at each boot while a new kernel is on trial. One boot is the trial: without a good mark within the time
# below, or at the next boot, the kernel before it is put back and the board boots that.
# WAIT_S: how long to wait for the mark, "no" not to wait for it. RELEASE: what runs. REBOOT: the command that
# boots anew.
set -u
root="${ROOT:-}"
own="$root/boot/npu-workbench"
trial="$own/trial.state"
wait="${WAIT_S:-600}"
running="${RELEASE:-$(uname -r)}"
[ -r "$trial" ] || exit 0

value() { sed -n "s|^$1=||p" "$trial" | head -n 1; }

back() {
    echo "ork: $1; going back to the kernel before"
    sh "$own/rollback.sh" || exit 1
    ${REBOOT:-systemctl reboot}
    exit 0
}

boots=$(value boots)
if [ "${boots:-0}" -ge 1 ]; then
    back "the trial of $(value release) was never marked good"
fi
# Counted before anything can fail, so that the trial is one boot even when the board hangs now.
sed "s/^boots=.*/boots=1/" "$trial" >"$trial.ork-new" || exit 1
sync
mv -f "$trial.ork-new" "$trial" || exit 1
sync
if [ "$running" != "$(value release)" ]; then
    back "$(value release) was to run and $running does"
fi
[ "$wait" = no ] && exit 0
sleep "$wait"
[ -r "$trial" ] || exit 0
back "$(value release) was not marked good within $wait s"
"""

UNIT_TEXT = """[Unit]
Description=Trial of a new kernel: back to the one before without a good mark
After=multi-user.target
ConditionPathExists=/boot/npu-workbench/trial.state

[Service]
Type=simple
ExecStart=/bin/sh /boot/npu-workbench/trial.sh

[Install]
WantedBy=multi-user.target
"""
