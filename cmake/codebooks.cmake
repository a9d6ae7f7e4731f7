# Tables of weight formats that come from PyPI gguf (tools/setup.sh puts it into build/venv) and stand nowhere in the tree:
#   <build>/generated/kernels/codebooks.inc   what src/kernels/codec/codebooks.h includes, from the package's literals
#   <build>/generated/codec_golden.bin        what the package makes of blocks of every format, for src/kernels/codec_test.cc
# A machine without build/venv builds with files that were made elsewhere and lie there.
set(evros_codebooks ${CMAKE_BINARY_DIR}/generated/kernels/codebooks.inc)
set(evros_codec_golden ${CMAKE_BINARY_DIR}/generated/codec_golden.bin)
set(venv ${CMAKE_SOURCE_DIR}/build/venv)
find_program(EVROS_PYTHON NAMES python3 REQUIRED)

file(GLOB quants ${venv}/lib/python3*/site-packages/gguf/quants.py)
if(quants)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated/kernels)
  add_custom_command(
    OUTPUT ${evros_codebooks}
    COMMAND ${EVROS_PYTHON} ${CMAKE_SOURCE_DIR}/tools/gen_codebooks.py ${quants} ${evros_codebooks}
    DEPENDS ${CMAKE_SOURCE_DIR}/tools/gen_codebooks.py ${quants}
    COMMENT "Making the codebooks of weight formats"
    VERBATIM)
  add_custom_command(
    OUTPUT ${evros_codec_golden}
    COMMAND ${venv}/bin/python ${CMAKE_SOURCE_DIR}/tools/gen_codec_golden.py ${evros_codec_golden}
    DEPENDS ${CMAKE_SOURCE_DIR}/tools/gen_codec_golden.py ${quants} ${venv}/requirements.txt
    COMMENT "Making the reference values of codecs"
    VERBATIM)
elseif(NOT EXISTS ${evros_codebooks})
  message(FATAL_ERROR "the PyPI package gguf is missing in build/venv; 'tools/setup.sh build' puts it there")
endif()

# For a target whose sources include codecs.
function(evros_use_codebooks target)
  target_sources(${target} PRIVATE ${evros_codebooks})
  target_include_directories(${target} PUBLIC ${CMAKE_BINARY_DIR}/generated)
endfunction()
