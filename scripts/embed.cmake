# Turns files into C arrays, so that the command contains them. The build runs it as
#     cmake -D OUTPUT=assets.c -D HEADER=room.h -D NAME=qkv_asset -D "FILES=a.js;b.css" -P scripts/embed.cmake
# The output defines NAMEs, an array of struct NAME, and NAME_count; HEADER declares them: a name, data, and a size.
set(arrays "")
set(rows "")
set(i 0)
foreach(file IN LISTS FILES)
    get_filename_component(name ${file} NAME)
    file(READ ${file} bytes HEX)
    if(bytes STREQUAL "")
        message(FATAL_ERROR "${file} is empty")
    endif()
    string(REGEX REPLACE "(................................)" "\\1\n    " bytes ${bytes})
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes ${bytes})
    string(APPEND arrays "static const unsigned char asset_${i}[] = {\n    ${bytes}\n};\n")
    string(APPEND rows "    {\"${name}\", asset_${i}, sizeof asset_${i}},\n")
    math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUTPUT} "/* Made by scripts/embed.cmake. */
#include \"${HEADER}\"

${arrays}
const struct ${NAME} ${NAME}s[] = {
${rows}};
const size_t ${NAME}_count = sizeof ${NAME}s / sizeof ${NAME}s[0];
")
