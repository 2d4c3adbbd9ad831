# kernels.cmake: the sources of src/kernel/isa, compiled once for each instruction set of this architecture. Sets
# KERNEL_OBJECTS.
#
# The entries are those of QKV_ISA_LIST. src/kernel/isa/simd_NAME.h says for which processors an entry is, which
# features it needs and with which options it is compiled. An entry with a base adds columns to this instruction set:
# only the sources of these columns are compiled for it. An entry with a base and no list of columns replaces all.
file(GLOB KERNEL_SOURCES CONFIGURE_DEPENDS src/kernel/isa/*.c)
file(READ include/qkv/context.h ISA_LIST)
string(REGEX MATCHALL "\n    X\\([a-z0-9_]+, (TABLE|COLUMNS)\\)" ISA_LIST "${ISA_LIST}")
list(TRANSFORM ISA_LIST REPLACE ".*\\(([a-z0-9_]+),.*" "\\1")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/qkv/context.h)
foreach(isa ${ISA_LIST})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/kernel/isa/simd_${isa}.h)
    file(STRINGS src/kernel/isa/simd_${isa}.h lines REGEX "^#define QKV_ISA_[A-Z]+")
    foreach(line ${lines})
        string(REGEX MATCH "^#define QKV_ISA_([A-Z]+)((_${isa})? +\"([^\"]*)\"|\\(X\\) +(.*)| +([a-z0-9_]+))"
               line "${line}")
        set(${isa}_${CMAKE_MATCH_1} "${CMAKE_MATCH_4}${CMAKE_MATCH_5}${CMAKE_MATCH_6}")
    endforeach()
endforeach()

set(FEATURES "") # of this machine; empty if it does not say them
if(EXISTS /proc/cpuinfo AND NOT CMAKE_CROSSCOMPILING)
    file(STRINGS /proc/cpuinfo FEATURES REGEX "^(flags|Features)" LIMIT_COUNT 1)
    file(STRINGS /proc/cpuinfo VENDOR REGEX "^vendor_id" LIMIT_COUNT 1)
endif()
function(isa_runs isa result) # whether this machine runs an entry
    set(${result} TRUE PARENT_SCOPE)
    string(REPLACE " " ";" needs "${${isa}_NEEDS}")
    foreach(feature ${needs})
        if(FEATURES AND NOT " ${FEATURES} " MATCHES " ${feature} ")
            set(${result} FALSE PARENT_SCOPE)
        endif()
    endforeach()
endfunction()

# The instruction sets of this architecture, and the last one that this machine runs.
set(ISA_WHOLE "")
foreach(isa ${ISA_LIST})
    if(NOT ${isa}_BASE AND CMAKE_SYSTEM_PROCESSOR MATCHES "${${isa}_PROCESSORS}")
        list(APPEND ISA_WHOLE ${isa})
        isa_runs(${isa} runs)
        if(runs)
            set(ISA_BEST ${isa})
        endif()
    endif()
endforeach()
if(QKV_KERNELS STREQUAL best AND NOT FEATURES)
    set(QKV_KERNELS native) # the best may not run here
endif()
set(ISA_WANTED scalar)
foreach(name ${QKV_KERNELS})
    list(APPEND ISA_WANTED ${name} ${${name}_BASE})
    if(NOT name MATCHES "^(all|runnable|native|best)$" AND NOT name IN_LIST ISA_LIST)
        list(JOIN ISA_LIST ", " names)
        message(FATAL_ERROR
                "QKV_KERNELS has \"${name}\"; it is all, runnable, native, best, or names with ';' between: ${names}")
    endif()
endforeach()

# At -O3 gcc makes copies of loops for cases that hardly ever come: a quarter of the library. Loops become vectors at
# -O2, too.
set(KERNEL_LEVEL -O3)
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
    set(KERNEL_LEVEL -O2 -ftree-vectorize -fvect-cost-model=dynamic)
endif()
if(QKV_KERNEL_LEVEL)
    set(KERNEL_LEVEL ${QKV_KERNEL_LEVEL})
endif()
# Nothing that a kernel calls leaves it; debug information has its frames.
list(APPEND KERNEL_LEVEL -fno-asynchronous-unwind-tables)
set(KERNEL_OBJECTS "")
set(ISA_BUILT "")
foreach(isa ${ISA_LIST})
    set(base ${${isa}_BASE})
    if(NOT isa IN_LIST ISA_WHOLE AND NOT base IN_LIST ISA_WHOLE)
        continue()
    elseif(base AND ${isa}_PROCESSORS AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "${${isa}_PROCESSORS}")
        continue()
    elseif(QKV_KERNELS MATCHES "^(runnable|native|best)$")
        isa_runs(${isa} runs)
        # of best: the best instruction set, and what other entries have for that one, unless it is slower on this
        # processor; of native: scalar, too
        if(QKV_KERNELS STREQUAL best AND ${isa}_SLOWER AND VENDOR MATCHES "${${isa}_SLOWER}")
            continue()
        endif()
        if(NOT runs OR (NOT QKV_KERNELS STREQUAL runnable AND NOT isa STREQUAL ISA_BEST AND NOT base STREQUAL ISA_BEST
                        AND NOT "${QKV_KERNELS} ${base} ${isa}" MATCHES "^native .*scalar"))
            continue()
        endif()
    elseif(NOT QKV_KERNELS STREQUAL all AND NOT isa IN_LIST ISA_WANTED)
        continue()
    endif()
    set(sources ${KERNEL_SOURCES})
    if(base AND ${isa}_COLUMNS)
        string(REGEX MATCHALL "[a-z0-9_]+" columns "${${isa}_COLUMNS}")
        list(JOIN columns "|" columns)
        list(FILTER sources INCLUDE REGEX "/(table|(${columns})(_[a-z0-9_]+)?)\\.c$")
    endif()
    string(REPLACE " " ";" options "${${base}_OPTIONS} ${${isa}_OPTIONS}")
    add_library(kernel_${isa} OBJECT ${sources})
    target_include_directories(kernel_${isa} PRIVATE include src)
    target_compile_definitions(kernel_${isa} PRIVATE QKV_TABLE_NAME=${isa})
    target_compile_options(kernel_${isa} PRIVATE ${KERNEL_LEVEL} -Wno-conversion -fno-math-errno ${options}
                           ${SANITIZED_KERNELS})
    precompile(kernel_${isa} src/kernel/isa/isa.h)
    list(APPEND KERNEL_OBJECTS $<TARGET_OBJECTS:kernel_${isa}>)
    list(APPEND ISA_BUILT "X(${isa})")
endforeach()
list(JOIN ISA_BUILT " " ISA_BUILT)
set_property(SOURCE src/kernel/tables.c APPEND PROPERTY COMPILE_DEFINITIONS "QKV_ISA_BUILT=${ISA_BUILT}")
