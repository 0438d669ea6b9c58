#!/usr/bin/env bash
# The Debian packages: what is in them, and what installing, using and purging them does in a clean Debian. The clean
# root is made once, with mmdebstrap, and kept in the build folder.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/packages.sh
. "$(dirname "$0")/packages.sh"

for tool in cpack dpkg-deb dpkg-shlibdeps file; do
  command -v $tool >/dev/null || skip "there is no $tool"
done
make_packages
version=$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")/\1/p' "$build/CPackConfig.cmake")
architecture=$(dpkg --print-architecture)
names=(convoyd convoy)
[ ! -e "$build/bin/convoy-backend-cuda.so" ] || names+=(convoyd-cuda)
for name in "${names[@]}"; do
  deb=$packages/${name}_${version}_$architecture.deb
  [ -f "$deb" ] || fail "no $deb: $(ls "$packages")"
  dpkg-deb -c "$deb" >"$work/$name.files"
  dpkg-deb -I "$deb" >"$work/$name.control"
done
if [ -e "$packages/convoyd-cuda_${version}_$architecture.deb" ] && [ ! -e "$build/bin/convoy-backend-cuda.so" ]; then
  fail "a package of a module that was not built"
fi

echo "What is in them."
has() { grep -qE " \./$2( ->.*)?$" "$work/$1.files" || fail "$1 has no $2: $(cat "$work/$1.files")"; }
for file in usr/bin/convoyd usr/bin/convoy-worker usr/lib/convoyd/convoy-backend-cpu.so etc/convoyd/convoyd.json \
  usr/lib/convoyd/convoy-backend-null.so usr/lib/systemd/system/convoyd.service usr/lib/sysusers.d/convoyd.conf \
  usr/lib/systemd/system/convoyd.socket usr/lib/tmpfiles.d/convoyd.conf usr/share/doc/convoyd/systemd.md \
  usr/share/convoyd/models/cifar10-{convnet,resnet}/1/model.onnx usr/share/convoyd/models/fashion-{ece408,lenet}/1/model.onnx; do
  has convoyd "$file"
done
for file in usr/bin/convoy usr/include/convoy.h usr/lib/libconvoy.so.0; do
  has convoy "$file"
done
grep -h 'faults' "$work"/*.files && fail "the above is for tests alone"
if [[ " ${names[*]} " == *" convoyd-cuda "* ]]; then
  for file in usr/bin/convoy-kernels usr/lib/convoyd/convoy-backend-cuda.so usr/lib/convoyd/libconvoy-kernels.so; do
    has convoyd-cuda "$file"
  done
fi
grep -E 'libdnnl|libuv|usr/etc|share/convoyd/systemd|LICENSE' "$work/convoyd.files" && fail "the above has no business here"
grep -q '^ Depends:.*libdnnl2.*libgif7.*libmicrohttpd12.*libsystemd0.*libuv1.*libwebp7' "$work/convoyd.control" || fail "$(cat "$work/convoyd.control")"
grep -q '^ Depends:.*libcurl4' "$work/convoy.control" || fail "$(cat "$work/convoy.control")"
[ "$(dpkg-deb -I "$packages/convoyd_${version}_$architecture.deb" conffiles)" = /etc/convoyd/convoyd.json ] || fail "no conffile"

if command -v lintian >/dev/null; then
  echo "lintian finds no errors, but for the address of the maintainer, which the publisher sets."
  lintian --allow-root --fail-on none "$packages"/*.deb >"$work/lintian" 2>&1 || fail "$(cat "$work/lintian")"
  grep '^E: ' "$work/lintian" | grep -vE ' bogus-mail-host' && fail "the above"
fi

[ "$(id -u)" = 0 ] || skip "contents are right; installing in a clean root needs root"
command -v mmdebstrap >/dev/null || skip "contents are right; there is no mmdebstrap to make a clean root with"
unshare --mount --pid --fork true 2>/dev/null || skip "contents are right; this machine cannot unshare a clean root"

root_tar=$build/debian-root.tar
if [ ! -f "$root_tar" ]; then
  echo "A clean Debian is made; it stays in $root_tar."
  . /etc/os-release
  mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' \
    /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1 || true)
  # Takes two thirds of debootstrap's time, and what the test needs besides comes along.
  mmdebstrap --quiet --variant=apt --include=systemd,curl --dpkgopt=force-unsafe-io --format=tar "$VERSION_CODENAME" "$root_tar.new" \
    ${mirror:+"$mirror"} >"$work/bootstrap" 2>&1 ||
    skip "contents are right; mmdebstrap makes no clean root here: $(tail -n 1 "$work/bootstrap")"
  mv "$root_tar.new" "$root_tar"
fi
mkdir "$work/root"
tar -C "$work/root" -xf "$root_tar"
clean=$work/root

# inside COMMAND: in the clean root, with /proc and processes of its own, all of which end with it; no devices but
# those that debootstrap made.
inside() {
  unshare --mount --pid --fork --kill-child chroot "$clean" \
    /bin/bash -c "mount -t proc proc /proc; export DEBIAN_FRONTEND=noninteractive LC_ALL=C; $1" </dev/null
}
# The mirror is reached as it is from here.
cp /etc/resolv.conf "$clean/etc/resolv.conf"
for proxy in /etc/apt/apt.conf.d/*; do
  grep -qi '^ *Acquire' "$proxy" && cp "$proxy" "$clean/etc/apt/apt.conf.d/"
done
mkdir "$clean/packages"
cp "$packages"/*.deb models/samples/ship.jpg "$clean/packages/"
everything() { (cd "$clean" && find etc var/lib var/cache/convoyd var/cache/private usr/share/convoyd usr/lib/convoyd \
  usr/lib/systemd -name '*convoy*' 2>/dev/null | sort); }

echo "Installed: nothing is started or enabled."
# A trap for what would be started: policy-rc.d says yes to all and writes down what it was asked.
printf '#!/bin/sh\necho "$@" >>/started\nexit 0\n' >"$clean/usr/sbin/policy-rc.d"
chmod +x "$clean/usr/sbin/policy-rc.d"
# A kept root and no network: that is no fault of the packages.
inside 'apt-get update -qq -o APT::Update::Error-Mode=any' >"$work/update" 2>&1 ||
  skip "contents are right; apt-get update fails in the clean root: $(tail -n 1 "$work/update")"
inside "apt-get install -y -qq --no-install-recommends systemd curl /packages/*.deb;
  echo status \$?; ps -e -o comm= 2>/dev/null || cat /proc/[0-9]*/comm" >"$work/install" 2>&1 || true
grep -q '^status 0$' "$work/install" || fail "$(tail -n 30 "$work/install")"
sed '1,/^status 0$/d' "$work/install" | grep convoy && fail "it runs"
grep convoyd "$clean/started" 2>/dev/null && fail "something asked to start it"
[ -f "$clean/usr/lib/systemd/system/convoyd.service" ] || fail "no service"
inside 'systemctl is-enabled convoyd.service convoyd.socket' >"$work/enabled" || true
[ "$(cat "$work/enabled")" = "disabled
disabled" ] || fail "$(cat "$work/enabled")"
[ "$(stat -c %a "$clean/var/lib/convoyd/models")" = 2775 ] || fail "$(ls -l "$clean/var/lib/convoyd")"

echo "It works."
[ "$(inside 'convoyd --version')" = "convoyd $version" ] || fail "$(inside 'convoyd --version')"
inside 'ldd /usr/bin/convoy* /usr/lib/convoyd/*.so' | grep 'not found' && fail "the above is missing"
inside 'cd / && convoyd --check-config' >"$work/check" || fail "$(cat "$work/check")"
grep -q '^configuration /etc/convoyd/convoyd.json: ok' "$work/check" || fail "$(cat "$work/check")"
[ "$(grep -c '^model .* version 1: ok' "$work/check")" = 4 ] || fail "$(cat "$work/check")"
# shellcheck disable=SC2016 # expanded inside
inside 'cd /; convoyd --config /etc/convoyd/convoyd.json --listen 127.0.0.1:0 2>/tmp/log & daemon=$!
  for i in $(seq 400); do
    port=$(sed -n "s/.*msg=\"convoyd listens\".* port=\([0-9]*\).*/\1/p" /tmp/log)
    [ -n "$port" ] && curl -fs -o /dev/null http://127.0.0.1:$port/v2/health/ready && break
    sleep 0.05
  done
  convoy classify --top 1 --url http://127.0.0.1:$port /packages/ship.jpg && kill -TERM $daemon && wait $daemon
  echo status $?' >"$work/classified" 2>&1 || true
grep -q '^status 0$' "$work/classified" || fail "$(cat "$work/classified" "$clean/tmp/log")"
grep -qw ship "$work/classified" || fail "$(cat "$work/classified" "$clean/tmp/log")"

echo "Purged: nothing of it is left but a model that the operator laid down."
inside 'systemctl enable convoyd.socket' >/dev/null 2>&1 || fail "it cannot be enabled"
[ -L "$clean/etc/systemd/system/sockets.target.wants/convoyd.socket" ] || fail "not enabled"
mkdir -p "$clean/var/lib/convoyd/models/own/1"
inside 'apt-get purge -y -qq convoyd convoy "convoyd-cuda*"' >"$work/purge" 2>&1 || fail "$(cat "$work/purge")"
[ "$(everything)" = "var/lib/convoyd" ] || fail "left: $(everything)"
[ -d "$clean/var/lib/convoyd/models/own/1" ] || fail "the operator's model is gone"
rm -r "$clean/var/lib/convoyd/models/own"
inside 'apt-get install -y -qq --no-install-recommends /packages/convoyd_*.deb && apt-get purge -y -qq convoyd' >"$work/purge" 2>&1 ||
  fail "$(tail -n 20 "$work/purge")"
[ -z "$(everything)" ] || fail "left: $(everything)"
echo "passed"
