#!/bin/sh
# Makes what libconvoy-kernels.so is linked with, so that it contains the static CUDA runtime and exports its functions:
#   export_runtime.sh NM OBJCOPY libcudart_static.a RENAMED.a JUMPS.c
# All symbols of NVIDIA's archive are hidden, so that no shared library can export them. RENAMED.a is a copy in which each
# function of the interface is called static_NAME; JUMPS.c defines each NAME as a jump to static_NAME.
set -eu
"$1" -g --defined-only "$3" | awk '$2 == "T" && $3 ~ /^(__)?cuda/ { print $3 }' | sort -u >"$5.names"
[ -s "$5.names" ] || { echo "export_runtime.sh: $3 defines no functions of CUDA's" >&2; exit 1; }
awk '{ print $1, "static_" $1 }' "$5.names" >"$5.renamed"
rm -f "$4"
"$2" --redefine-syms="$5.renamed" "$3" "$4"
{
  # endbr64: what -fcf-protection expects where an indirect call lands.
  printf '#if defined(__x86_64__)\n#define JUMP "endbr64; jmp"\n#elif defined(__aarch64__)\n#define JUMP "b"\n#endif\n'
  printf '#define EXPORT(name) \\\n'
  printf '    __asm__(".text\\n.globl " #name "\\n.type " #name ", %%function\\n" #name ": " JUMP " static_" #name "\\n" \\\n'
  printf '            ".size " #name ", .-" #name "\\n");\n'
  awk '{ print "EXPORT(" $1 ")" }' "$5.names"
} >"$5"
