# Flags for our own code, as an interface target; and the instruction sets some files are compiled for.
add_library(coterie_flags INTERFACE)
target_compile_options(coterie_flags INTERFACE -Wall -Wextra -Wpedantic -Werror
                       $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(coterie_flags INTERFACE -Wshadow=local)
  # GCC 12 sees overflows and uninitialised values in correct vector code.
  target_compile_options(coterie_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds
                         -Wno-psabi $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Vectors passed between functions of one file have no ABI to keep.
  target_compile_options(coterie_flags INTERFACE -Wshadow -Wno-psabi)
endif()
if(COTERIE_SANITIZE)
  target_compile_options(coterie_flags INTERFACE -fsanitize=${COTERIE_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(coterie_flags INTERFACE -fsanitize=${COTERIE_SANITIZE})
endif()
if(COTERIE_FUZZ)  # coverage of the library, which guides the fuzzers
  target_compile_options(coterie_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(coterie_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# GCC 12's own AVX-512 header reads an undefined vector on purpose, hence -Wno-uninitialized.
# Files named *_avx2.cpp and *_avx512.cpp are compiled for that instruction set and called only after a run-time check.
function(coterie_instruction_sets target)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "_avx512\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mavx512vbmi;-mavx2;-mfma;-mf16c;-mbmi2;$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>")
    elseif(source MATCHES "_avx2\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mbmi2")
    endif()
  endforeach()
endfunction()
