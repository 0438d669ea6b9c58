#!/usr/bin/env bash
# The units are sound and the service is locked up well; users and folders come out as meant.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

command -v systemd-analyze >/dev/null || skip "there is no systemd-analyze (package systemd)"
most=2.0 # of 10, see systemd-analyze(1), security

echo "systemd understands the units."
# Where the daemon is not installed, ExecStart names the one that was built.
for unit in convoyd.service convoyd.socket; do
  sed "s|^ExecStart=/usr/bin/convoyd |ExecStart=$PWD/$build/bin/convoyd |" "systemd/$unit" >"$work/$unit"
done
grep -q "^ExecStart=$PWD/$build/bin/convoyd --config /etc/convoyd/convoyd.json$" "$work/convoyd.service" ||
  fail "another ExecStart: $(grep ExecStart systemd/convoyd.service)"
systemd-analyze verify --man=no "$work/convoyd.service" "$work/convoyd.socket" >"$work/verify" 2>&1 ||
  fail "$(cat "$work/verify")"
[ ! -s "$work/verify" ] || fail "$(cat "$work/verify")"

echo "The service is exposed by no more than $most."
systemd-analyze security --no-pager --offline=true "$work/convoyd.service" >"$work/security" 2>"$work/errors" ||
  fail "$(cat "$work/errors")"
exposure=$(sed -n 's/.*Overall exposure level for convoyd.service: \([0-9.]*\) .*/\1/p' "$work/security")
awk -v found="$exposure" -v most=$most 'BEGIN { exit !(found != "" && found + 0 <= most) }' ||
  fail "exposure ${exposure:-unknown}: $(grep '✗' "$work/security")"
echo "exposure $exposure"

echo "What was tried and breaks is not there; what the issue of the GPU needs is."
grep -E '^(MemoryDenyWriteExecute|PrivateDevices|ProcSubset)=' systemd/convoyd.service && fail "the above breaks backends"
for line in Type=notify NotifyAccess=main KillMode=process FileDescriptorStoreMax=320 OOMPolicy=continue DynamicUser=yes CacheDirectory=convoyd \
  DevicePolicy=closed 'DeviceAllow=char-nvidia\* rw' 'WatchdogSec=[1-9][0-9]*' 'Restart=on-failure' 'LimitNOFILE=[1-9][0-9]*' \
  'MemoryMax=[1-9][0-9]%' 'TasksMax=[1-9][0-9]*'; do
  grep -qx "$line" systemd/convoyd.service || fail "no $line"
done
stop_s=$(sed -n 's/^TimeoutStopSec=//p' systemd/convoyd.service)
drain_ms=$(json config/convoyd.json 'd["drain_ms"] + d["drain_timeout_ms"]')
[ $((stop_s * 1000)) -gt "$drain_ms" ] || fail "TimeoutStopSec=$stop_s is shorter than a drain of $drain_ms ms"
descriptors=$(sed -n 's/^LimitNOFILE=//p' systemd/convoyd.service)
[ "$descriptors" -gt $((2 * $(json config/convoyd.json 'd["http"]["connections"]'))) ] || fail "LimitNOFILE=$descriptors"

echo "The groups and the folder for models."
mkdir -p "$work"/root/{etc,usr/lib/sysusers.d,usr/lib/tmpfiles.d}
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$work/root/etc/passwd"
printf 'root:x:0:\n' >"$work/root/etc/group"
cp systemd/sysusers.d/convoyd.conf "$work/root/usr/lib/sysusers.d/"
cp systemd/tmpfiles.d/convoyd.conf "$work/root/usr/lib/tmpfiles.d/"
systemd-sysusers --root="$work/root" --dry-run convoyd.conf >"$work/dry" 2>&1 || fail "$(cat "$work/dry")"
grep -qi "group 'convoyd-models'" "$work/dry" || fail "no group: $(cat "$work/dry")"
# The unit's groups, or it does not start; and those to which the documents give files, before the service runs for the first time.
groups=$({ sed -n 's/^SupplementaryGroups=//p' systemd/convoyd.service; sed -nE 's/.*install .*-g ([a-z-]+) .*/\1/p' docs/*.md; } | sort -u)
[ "$groups" = convoyd-keys ] || fail "the unit and the documents name other groups than convoyd-keys: $groups"
grep -qi "group 'convoyd-keys'" "$work/dry" || fail "no group: $(cat "$work/dry")"
[ "$(id -u)" = 0 ] || skip "systemd-tmpfiles needs root; the rest passed"
systemd-sysusers --root="$work/root" convoyd.conf >"$work/made" 2>&1 || fail "$(cat "$work/made")"
group=$(sed -n 's/^convoyd-models:[^:]*:\([0-9]*\):.*/\1/p' "$work/root/etc/group")
[ -n "$group" ] || fail "no group: $(cat "$work/root/etc/group")"
# It says so on standard error when a line is wrong, with the status 0 or 65.
systemd-tmpfiles --root="$work/root" --create convoyd.conf >"$work/made" 2>&1 || fail "$(cat "$work/made")"
[ ! -s "$work/made" ] || fail "$(cat "$work/made")"
[ "$(stat -c '%a %u' "$work/root/var/lib/convoyd")" = "755 0" ] || fail "$(stat "$work/root/var/lib/convoyd")"
[ "$(stat -c '%a %u %g' "$work/root/var/lib/convoyd/models")" = "2775 0 $group" ] ||
  fail "$(stat "$work/root/var/lib/convoyd/models")"
echo "passed"
