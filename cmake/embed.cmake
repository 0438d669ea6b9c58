# Turns a text file into a C array and the SHA-256 of its bytes in hexadecimal, with @PROJECT_VERSION@ filled in:
# cmake -D SOURCE=FILE -D RESULT=FILE.c -D NAME=IDENTIFIER -D VERSION=1.2.3 -P embed.cmake
file(READ ${SOURCE} text)
string(REPLACE "@PROJECT_VERSION@" "${VERSION}" text "${text}")
string(SHA256 digest "${text}")
string(HEX "${text}" bytes)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}") # 16 to a line
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${RESULT} "#include <stddef.h>

const unsigned char ${NAME}[] = {
${bytes}
};
const size_t ${NAME}_length = sizeof ${NAME};
const char ${NAME}_sha256[] = \"${digest}\";
")
