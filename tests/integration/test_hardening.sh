#!/usr/bin/env bash
# What was built is hardened as cmake/hardening.cmake asks: each program and module of build/bin and the shared library of
# the client, and what the packages hold is the same code.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/packages.sh
. "$(dirname "$0")/packages.sh"

for tool in readelf objdump objcopy; do
  command -v $tool >/dev/null || skip "there is no $tool"
done
grep -q '^CONVOY_SANITIZE:STRING=.' "$build/CMakeCache.txt" && skip "$build has a sanitizer and no hardening"

# A newer compiler's warning ends the builds of developers and of continuous integration, never a user's.
python3 - CMakePresets.json <<'CHECK' || fail "the preset above has the wrong CONVOY_WERROR"
import json, sys
presets = {preset["name"]: preset for preset in json.load(open(sys.argv[1]))["configurePresets"]}
def errors(name):
    while name is not None:
        value = presets[name].get("cacheVariables", {}).get("CONVOY_WERROR")
        if value is not None:
            return value == "ON"
        name = presets[name].get("inherits")
    return False
wrong = [name for name in ("user", "release", "asan", "tsan") if errors(name) != (name != "user")]
print(*wrong)
sys.exit(len(wrong))
CHECK
grep -q '^option(CONVOY_WERROR .* OFF)' CMakeLists.txt || fail "CONVOY_WERROR is on where no preset asks for it"

bad=()
wrong() {
  echo "$1: $2"
  bad+=("$1")
}
is_elf() { [ "$(head -c 4 "$1" | tr -d '\0')" = $'\177ELF' ]; }

# linked FILE: what the dynamic linker sees, in a stripped file as well.
linked() {
  local file=$1
  readelf -hlWd "$file" >"$work/headers"
  readelf -W --dyn-syms "$file" | awk '$7 == "UND" { sub(/@.*/, "", $8); print $8 }' >"$work/imports"
  grep -q '^ *Type: *DYN' "$work/headers" || wrong "$file" "is not position independent"
  grep -q '^ *GNU_RELRO' "$work/headers" || wrong "$file" "has no GNU_RELRO"
  grep -qE '\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b' "$work/headers" || wrong "$file" "does not ask for BIND_NOW"
  grep -q '^ *GNU_STACK.* RW  ' "$work/headers" || wrong "$file" "has an executable stack"
  # Some files are too small to have an array on the stack, or to call what could be checked.
  case ${file##*/} in
    convoy-backend-null.so) return ;;
  esac
  grep -q '^__[a-z]*_chk$' "$work/imports" || wrong "$file" "imports no checked function (__*_chk)"
  grep -qx '__stack_chk_fail' "$work/imports" || wrong "$file" "has no stack protector"
}

# marked FILE: our functions, which symbols tell from those of libraries, begin with a marked branch target.
marked() {
  local file=$1
  [ "$(uname -m)" = x86_64 ] || return 0
  objdump -d --no-show-raw-insn -j .text "$file" |
    awk '/^[0-9a-f]+ <(convoy_[a-z0-9_]*|main)>:$/ { name = $2; next }
      name ~ /<convoy_switch_stack>/ { name = "" } # assembly, of the emulated GPU
      name != "" { if ($0 !~ /endbr64/) print name; else marked++; name = "" }
      END { if (!marked) print "none" }' >"$work/unmarked"
  [ ! -s "$work/unmarked" ] || wrong "$file" "has functions without endbr64: $(head -n 5 "$work/unmarked" | tr '\n' ' ')"
}

files=0
for file in "$build"/bin/* "$build"/client/libconvoy.so; do
  is_elf "$file" || continue
  files=$((files + 1))
  linked "$file"
  marked "$file"
done
[ $files -ge 6 ] || fail "only $files programs and modules in $build/bin"
[ ${#bad[@]} -eq 0 ] || fail "of $files files: ${bad[*]}"
echo "$files programs and modules are hardened."

command -v cpack >/dev/null || skip "what was built is hardened; there is no cpack to look into packages"
command -v dpkg-deb >/dev/null || skip "what was built is hardened; there is no dpkg-deb to look into packages"
make_packages
for deb in "$packages"/*.deb; do
  dpkg-deb -x "$deb" "$work/root"
done
# code FILE: the checksum of its instructions, which stripping leaves alone.
code() { objcopy -O binary --only-section=.text "$1" "$work/text" && sha256sum <"$work/text"; }
packed=0
while read -r file; do
  is_elf "$file" || continue
  packed=$((packed + 1))
  linked "$file"
  built=$build/bin/${file##*/}
  [ -e "$built" ] || built=$build/client/${file##*/}
  [ "$(code "$file")" = "$(code "$built")" ] || wrong "$file" "is not the code of $built, which the tests run"
done < <(find "$work/root" -type f)
[ $packed -ge 5 ] || fail "only $packed programs and modules in the packages"
[ ${#bad[@]} -eq 0 ] || fail "of the packages: ${bad[*]}"
echo "The $packed in the packages are the same code."
