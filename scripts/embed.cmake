# Turns files into C arrays, so that the command contains them. The build runs it as
#     cmake -D OUTPUT=assets.c -D "FILES=a.js;b.css" -P scripts/embed.cmake
# The output defines qkv_assets (lab/report/report_room.h).
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
#include \"lab/report/report_room.h\"

${arrays}
const struct qkv_asset qkv_assets[] = {
${rows}};
const size_t qkv_asset_count = sizeof qkv_assets / sizeof qkv_assets[0];
")
