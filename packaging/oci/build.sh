#!/usr/bin/env bash
# Builds container images from this tree's Debian packages and Debian's own, without a registry.
#   packaging/oci/build.sh [OPTION]... [cpu] [cuda]     as root; default: those for which there are packages
#   --packages DIR   the packages (default: they are made of the build folder, build or $CONVOY_BUILD)
#   --nvjpeg FILE    the libnvjpeg.so.13 that goes into convoyd:cuda, or none (default: NVIDIA's from PyPI, nvjpeg.txt)
#   --storage DIR    where buildah keeps the images (default: where root's buildah and podman look)
#   --save DIR       write also convoyd-cpu.tar and convoyd-cuda.tar, for `docker load` and `podman load`
# The images are named convoyd:cpu and convoyd:cuda. SOURCE_DATE_EPOCH (default: of the last commit) dates all that is in
# them: the same packages make the same image.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)

die() {
  echo "build.sh: $*" >&2
  exit 1
}

# No network is no fault of the packages: a status of its own (EX_TEMPFAIL).
cannot_fetch() {
  echo "build.sh: $*" >&2
  exit 75
}

packages='' storage='' save='' nvjpeg='' wanted=()
while [ $# -gt 0 ]; do
  case $1 in
  --packages) packages=${2:?} && shift ;;
  --nvjpeg) nvjpeg=${2:?} && shift ;;
  --storage) storage=${2:?} && shift ;;
  --save) save=${2:?} && shift ;;
  cpu | cuda) wanted+=("$1") ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
  esac
  shift
done
for tool in mmdebstrap buildah dpkg-scanpackages; do
  command -v $tool >/dev/null || die "there is no $tool: apt-get install mmdebstrap buildah dpkg-dev"
done
[ "$(id -u)" = 0 ] || die "run it as root: files of the image belong to root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$tree" log -1 --format=%ct 2>/dev/null || date +%s)}
export LC_ALL=C
if [ -z "$packages" ]; then
  build=${CONVOY_BUILD:-$tree/build}
  [ -f "$build/CPackConfig.cmake" ] || die "there is no build in $build: ./build.sh makes one"
  packages=$work/made
  cpack --config "$build/CPackConfig.cmake" -B "$work/cpack" -D CPACK_OUTPUT_FILE_PREFIX="$packages" >"$work/log" 2>&1 ||
    die "no packages: $(tail -n 20 "$work/log")"
fi
mkdir "$work/repository" "$work/context"
cp "$packages"/convoy*.deb "$work/repository/" || die "no packages in $packages"
(cd "$work/repository" && dpkg-scanpackages -m . >Packages 2>/dev/null)
if [ ${#wanted[@]} = 0 ]; then
  wanted=(cpu)
  ! compgen -G "$work/repository/convoyd-cuda_*.deb" >/dev/null || wanted+=(cuda)
fi
version=$(dpkg-deb -f "$work"/repository/convoyd_*.deb Version)
revision=$(git -C "$tree" rev-parse HEAD 2>/dev/null || true)
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

# Debian as this machine gets it; the packages need the release that they were built on.
. /etc/os-release
sources=()
for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
  if grep -qs '^[^#]' "$list"; then sources+=("$list"); fi
done
options=(--aptopt='APT::Install-Recommends "false"')
for file in /etc/apt/apt.conf.d/*; do
  if grep -qsi '^ *Acquire' "$file"; then options+=("--aptopt=$file"); fi
done

# make_root NAME PACKAGE...: unpacks the packages and all that they need, and nothing else, into $work/NAME. No package's script
# runs ("extract"): what they would do that an image needs is in finish_root.
make_root() {
  local name=$1 include
  shift
  include=$(IFS=, && echo "$*")
  # $1 in the hook is mmdebstrap's: the root.
  # shellcheck disable=SC2016
  mmdebstrap --quiet --variant=extract --include="$include" "${options[@]}" \
    --extract-hook='cp "$1"/var/cache/apt/archives/*.deb '"$work/$name.debs/" \
    "$VERSION_CODENAME" "$work/$name" "${sources[@]}" "deb [trusted=yes] copy:$work/repository ./" >"$work/log" 2>&1 &&
    return
  if grep -qE 'Failed to fetch|Temporary failure|Could not (resolve|connect)|Unable to connect' "$work/log"; then
    cannot_fetch "Debian's packages cannot be fetched: $(grep -E '^(E|Err|W):' "$work/log" | tail -n 1)"
  fi
  die "mmdebstrap fails: $(tail -n 20 "$work/log")"
}

finish_root() {
  local root=$1 file
  # Programs that came with libraries, and what no program in the image reads. Copyrights stay.
  find "$root"/{bin,sbin,usr/bin,usr/sbin} -mindepth 1 ! -name 'convoy*' ! -name busybox -delete 2>/dev/null || true
  keep_copyrights "$root"
  rm -rf "${root:?}"/{dev,tmp,run,proc,sys,boot,home,media,mnt,opt,root,srv,usr/games,usr/local,usr/src,usr/include}
  rm -rf "${root:?}"/etc/{apt,cron.daily,debconf.conf,default,dpkg,init.d,logrotate.d,profile.d,skel,update-motd.d,terminfo,ld.so.conf.d}
  rm -rf "$root"/usr/share/{man,locale,info,lintian,bash-completion,debconf,perl5,pixmaps,bug,menu,initramfs-tools,convoyd/systemd}
  rm -rf "$root"/usr/lib/{systemd,sysusers.d,tmpfiles.d,ssl} "$root"/usr/lib/*/{gconv,engines-3,ossl-modules,audit,pkgconfig,cmake}
  rm -rf "$root"/lib/systemd "$root"/usr/lib/*/*.a "$root"/var/{backups,cache,lib,local,lock,log,mail,opt,run,spool,tmp}
  mkdir -p "${root:?}"/{dev,proc,sys,tmp,run/convoyd,bin,var/cache/convoyd,var/lib/convoyd/models,var/lib/dpkg,etc/ssl/certs}
  chmod 1777 "$root/tmp"
  # KServe's preStop hook (config/kubernetes/kserve) sleeps.
  ln -s /bin/busybox "$root/bin/sleep"
  for file in "$root"/usr/share/convoyd/models/*; do
    ln -s "/usr/share/convoyd/models/${file##*/}" "$root/var/lib/convoyd/models/${file##*/}"
  done
  cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
  printf 'root:x:0:0:root:/:/bin/false\nconvoyd:x:65532:65532::/:/bin/false\n' >"$root/etc/passwd"
  printf 'root:x:0:\nconvoyd:x:65532:\n' >"$root/etc/group"
  printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
  chown 65532:65532 "$root/run/convoyd" "$root/var/cache/convoyd"
  # A container is asked from outside of it.
  sed -i 's/"listen": "127.0.0.1:8080"/"listen": ":8080"/' "$root/etc/convoyd/convoyd.json"
  grep -q '"listen": ":8080"' "$root/etc/convoyd/convoyd.json" || die "the configuration has no listen of 127.0.0.1:8080"
}

# keep_copyrights ROOT: of the documents that packages bring.
keep_copyrights() { find "$1/usr/share/doc" -mindepth 2 ! -name copyright ! -type d -delete; }

# describe ROOT FILE...: what is inside. Scanners look for Debian's packages in dpkg's status.
describe() {
  local root=$1 file
  shift
  for file; do
    [[ $file == *.deb ]] || continue
    dpkg-deb -f "$file" | sed '1a Status: install ok installed'
    echo
  done >"$root/var/lib/dpkg/status"
  "$here/sbom.sh" "$version" "$created" "$@" >"$root/usr/share/convoyd/sbom.spdx.json"
}

# fetch_nvjpeg: sets $nvjpeg to NVIDIA's library, whose checksum nvjpeg.txt names, and $nvjpeg_wheel to what it came in.
fetch_nvjpeg() {
  local pip=(python3 -m pip)
  "${pip[@]}" --version >/dev/null 2>&1 ||
    { python3 -m venv "$work/venv" >/dev/null 2>&1 && pip=("$work/venv/bin/pip"); } ||
    die "there is no pip to fetch libnvjpeg.so.13 with: apt-get install python3-pip, or give --nvjpeg FILE or --nvjpeg none"
  timeout 240 "${pip[@]}" download --quiet --no-deps --only-binary :all: --require-hashes --requirement "$here/nvjpeg.txt" \
    --dest "$work/nvjpeg" >"$work/log" 2>&1 ||
    cannot_fetch "libnvjpeg.so.13 cannot be fetched from PyPI (--nvjpeg FILE gives another): $(tail -n 1 "$work/log")"
  nvjpeg_wheel=$(echo "$work"/nvjpeg/*.whl)
  python3 -m zipfile --extract "$nvjpeg_wheel" "$work/nvjpeg/wheel"
  nvjpeg=$(echo "$work"/nvjpeg/wheel/nvidia/*/lib/libnvjpeg.so.13)
}

# make_cuda_layer ROOT: what convoyd:cuda has that the first layer lacks: the CUDA module, and the library that decodes JPEG files
# on the GPU, which NVIDIA's driver does not bring.
make_cuda_layer() {
  local root=$1 module=("$work"/repository/convoyd-cuda_*.deb) library inside=()
  [ -f "${module[0]}" ] || die "there is no package convoyd-cuda: build where nvcc is"
  dpkg --root="$work/cpu" --simulate --install "${module[0]}" >"$work/log" 2>&1 ||
    die "convoyd-cuda needs what convoyd:cpu lacks: $(cat "$work/log")"
  dpkg-deb --extract "${module[0]}" "$root"
  keep_copyrights "$root"
  # It checks and times kernels, with others to compare them with.
  rm "$root/usr/bin/convoy-kernels"
  inside=("${module[0]}")
  if [ "$nvjpeg" != none ]; then
    library=$root/usr/lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH)/libnvjpeg.so.13
    install -D -m 644 "$nvjpeg" "$library"
    mkdir "$root/usr/share/doc/nvidia-nvjpeg"
    if [ -n "$nvjpeg_wheel" ]; then
      cat "$work"/nvjpeg/wheel/*.dist-info/licenses/*
    else
      echo "libnvjpeg.so.13 is NVIDIA's, under the licence of the CUDA Toolkit: https://docs.nvidia.com/cuda/eula/"
    fi >"$root/usr/share/doc/nvidia-nvjpeg/copyright"
    inside+=("${nvjpeg_wheel:-$library}")
  fi
  mkdir -p "$root"/{var/lib/dpkg,usr/share/convoyd}
  describe "$root" "$work"/cpu.debs/*.deb "${inside[@]}"
}

# pack ROOT TAR: the same files make the same bytes.
pack() {
  tar --create --file "$2" --directory "$1" --sort=name --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --clamp-mtime \
    --format=gnu .
}

# First what may not be there.
nvjpeg_wheel=
if [[ " ${wanted[*]} " == *" cuda "* ]]; then
  [ -n "$nvjpeg" ] || fetch_nvjpeg
  [ "$nvjpeg" = none ] || [ -f "$nvjpeg" ] || die "--nvjpeg $nvjpeg: there is no such file"
fi
mkdir "$work"/{cpu,cpu.debs,cuda}
make_root cpu convoyd convoy busybox ca-certificates base-files
finish_root "$work/cpu"
describe "$work/cpu" "$work"/cpu.debs/*.deb
pack "$work/cpu" "$work/context/cpu.tar"
if [[ " ${wanted[*]} " == *" cuda "* ]]; then
  make_cuda_layer "$work/cuda"
  pack "$work/cuda" "$work/context/cuda.tar"
fi
cp "$here/Containerfile" "$work/context/"

# vfs and chroot need no overlay file system, no cgroups and no namespaces, which builders often lack.
tool=(buildah)
[ -z "$storage" ] || tool+=(--root "$storage" --runroot "$work/run" --storage-driver vfs)
for image in "${wanted[@]}"; do
  "${tool[@]}" build --quiet --isolation chroot --format docker --timestamp "$SOURCE_DATE_EPOCH" --target "$image" \
    --build-arg VERSION="$version" --build-arg REVISION="$revision" --build-arg CREATED="$created" \
    --tag "convoyd:$image" --file "$work/context/Containerfile" "$work/context" >"$work/log" 2>&1 ||
    die "buildah fails: $(tail -n 20 "$work/log")"
  if [ -n "$save" ]; then
    rm -f "$save/convoyd-$image.tar"
    "${tool[@]}" push --quiet "convoyd:$image" "docker-archive:$save/convoyd-$image.tar:convoyd:$image" >"$work/log" 2>&1 ||
      die "the image cannot be written to $save: $(tail -n 20 "$work/log")"
  fi
  bytes=$(stat -c %s "$work/context/cpu.tar")
  [ "$image" = cpu ] || bytes=$((bytes + $(stat -c %s "$work/context/cuda.tar")))
  echo "convoyd:$image $version, $((bytes / 1000000)) MB, $("${tool[@]}" images --no-trunc --quiet "convoyd:$image")"
done
