# In a package nothing is bundled, so nothing needs a search path of its own; the linker's is Debian's.
file(GLOB_RECURSE files LIST_DIRECTORIES false "${CPACK_TEMPORARY_DIRECTORY}/*/usr/bin/*"
  "${CPACK_TEMPORARY_DIRECTORY}/*/usr/lib/*.so*")
foreach(file ${files})
  file(READ "${file}" magic LIMIT 4 HEX)
  if(magic STREQUAL 7f454c46 AND NOT IS_SYMLINK "${file}")
    file(RPATH_REMOVE FILE "${file}")
  endif()
endforeach()
