# evros-tiny.gguf beside the program: the bundled model in Q8_0, made by the program itself from the one copy in the tree.
# A program built with sanitizers makes it too, so that every build converts once.
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
if(TARGET evros_tests)
  add_dependencies(evros_tests bundled_model)
endif()
