# Makes the manual pages and the completions of shells from the help tables of the command:
#     cmake -D "QKV=COMMAND" -D OUTPUT=FOLDER -P make-pages.cmake
# QKV may be a list, an emulator and the command. Pages are in FOLDER/man1, completions in FOLDER/bash, zsh and fish.
function(make_page file)
    execute_process(COMMAND ${QKV} help --format ${ARGN} OUTPUT_FILE ${OUTPUT}/${file} RESULT_VARIABLE code)
    if(NOT code EQUAL 0)
        message(FATAL_ERROR "${QKV} help --format ${ARGN}: exit code ${code}")
    endif()
endfunction()

file(REMOVE_RECURSE ${OUTPUT})
foreach(folder man1 bash zsh fish)
    file(MAKE_DIRECTORY ${OUTPUT}/${folder})
endforeach()
make_page(commands list)
file(STRINGS ${OUTPUT}/commands commands)
make_page(man1/qkv.1 man)
foreach(command ${commands})
    make_page(man1/qkv-${command}.1 man ${command})
endforeach()
make_page(bash/qkv bash)
make_page(zsh/_qkv zsh)
make_page(fish/qkv.fish fish)
