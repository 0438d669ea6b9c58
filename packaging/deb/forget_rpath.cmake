# In a package nothing is bundled, so nothing needs a search path of its own; the linker's is Debian's. The exception is
# libconvoy-kernels.so, which lies in a folder of convoyd's own: what is linked with it keeps the way there.
file(GLOB_RECURSE files LIST_DIRECTORIES false "${CPACK_TEMPORARY_DIRECTORY}/*/usr/bin/*"
  "${CPACK_TEMPORARY_DIRECTORY}/*/usr/lib/*.so*")
foreach(file ${files})
  file(READ "${file}" magic LIMIT 4 HEX)
  if(magic STREQUAL 7f454c46 AND NOT IS_SYMLINK "${file}" AND NOT file MATCHES "/convoy-(kernels|backend-cuda[^/]*)$")
    file(RPATH_REMOVE FILE "${file}")
  endif()
endforeach()
