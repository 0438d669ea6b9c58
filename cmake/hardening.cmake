# What makes a fault in memory harder to exploit, in optimised builds without a sanitizer: checked copies and formats, stack
# protector, marked branch targets, addresses drawn at start, and no relocation left writable once the program runs.
# tests/integration/test_hardening.sh looks for it in what was built.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)
check_pie_supported()

if(CONVOY_SANITIZE OR CONVOY_FUZZ OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  return()
endif()
# Level 3 needs GCC 12 or clang 9, and glibc 2.34; an older library says with a warning that it takes 2.
set(level 2)
set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_c_source_compiles("#include <string.h>\nint main(void) { return (int)strlen(\"\"); }" CONVOY_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)
if(CONVOY_FORTIFY_3)
  set(level 3)
endif()
set(hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level} -fstack-protector-strong)
check_c_compiler_flag(-fcf-protection CONVOY_CF_PROTECTION) # x86
if(CONVOY_CF_PROTECTION)
  list(APPEND hardening -fcf-protection)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${hardening}>")
# The host's half of CUDA sources.
list(JOIN hardening "," host)
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host}>")
add_link_options(-Wl,-z,relro,-z,now)
