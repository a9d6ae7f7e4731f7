# evros-tiny.gguf beside the program: the bundled model in Q8_0, made by the program itself from the one copy in the tree.
# Part of every default build, and of what the tests of a whole build need.
if(NOT TARGET evros)
  return()
endif()
set(bundled_source ${CMAKE_SOURCE_DIR}/models/evros-tiny)
set(bundled_model ${CMAKE_BINARY_DIR}/evros-tiny.gguf)
file(GLOB bundled_inputs CONFIGURE_DEPENDS ${bundled_source}/*.safetensors ${bundled_source}/*.json ${bundled_source}/*.jinja)
add_custom_command(
  OUTPUT ${bundled_model}
  COMMAND evros convert --quiet --type q8_0 ${bundled_source} ${bundled_model}
  DEPENDS evros ${bundled_inputs}
  COMMENT "Converting the bundled model"
  VERBATIM)
add_custom_target(bundled_model ALL DEPENDS ${bundled_model})
if(NOT EVROS_TEST_FOLDERS)
  add_dependencies(evros_tests bundled_model)
endif()
