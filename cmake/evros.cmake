# evros_library(folder DEPS other folders... [LIBS public libraries...] [PRIVATE_LIBS libraries...])
# A static library from src/<folder>/**.cc and, from **_test.cc, one test program <folder>_test.
# The folder sim lies beside src/. src/<folder>/*_fuzz.cc become libFuzzer programs when EVROS_FUZZ is on; src/<folder>/main.cc is left to the caller.
#
# Two targets gather what the caller would otherwise have to list: evros_tests builds every test program that this
# configuration has, evros_fuzzers every fuzz program, whose names also stand in <build>/fuzzers.txt.
add_custom_target(evros_tests)
add_custom_target(evros_fuzzers)
file(WRITE ${CMAKE_BINARY_DIR}/fuzzers.txt "")

# Is this folder's test program wanted? EVROS_TEST_FOLDERS empty means all of them.
function(evros_wants_tests folder result)
  if(EVROS_TESTS AND (NOT EVROS_TEST_FOLDERS OR folder IN_LIST EVROS_TEST_FOLDERS))
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# A test program built and run like all others. What it needs to find its data comes in as two macros.
function(evros_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE EVROS_SOURCE_DIR="${CMAKE_SOURCE_DIR}" EVROS_BINARY_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  add_dependencies(evros_tests ${name})
endfunction()

function(evros_library folder)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY EVROS_FOLDERS ${folder})
  set(root ${CMAKE_SOURCE_DIR}/src)
  if(folder STREQUAL "sim")
    set(root ${CMAKE_SOURCE_DIR})  # beside src/: no part of the product but of its tests and of verify
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/${folder}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/cuda/")  # a backend of its own: cmake/cuda.cmake
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(fuzzers ${sources})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|/main)\\.cc$")
  list(FILTER sources EXCLUDE REGEX "/kernels/cpu/")  # compiled once per instruction set: cmake/kernels.cmake
  if(NOT sources)
    return()
  endif()
  add_library(${folder} STATIC ${sources})
  target_include_directories(${folder} PUBLIC ${CMAKE_SOURCE_DIR}/src ${root})
  foreach(dep ${ARG_DEPS})
    if(TARGET ${dep})
      target_link_libraries(${folder} PUBLIC ${dep})
    endif()
  endforeach()
  target_link_libraries(${folder} PUBLIC ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
  evros_wants_tests(${folder} wanted)
  if(wanted AND tests)
    evros_test_program(${folder}_test SOURCES ${tests} LIBS ${folder} ${ARG_PRIVATE_LIBS})
  endif()
  if(EVROS_FUZZ)
    foreach(fuzzer ${fuzzers})
      get_filename_component(name ${fuzzer} NAME_WE)
      add_executable(${name} ${fuzzer})
      target_link_libraries(${name} PRIVATE ${folder} ${ARG_PRIVATE_LIBS})
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
      add_dependencies(evros_fuzzers ${name})
      file(APPEND ${CMAKE_BINARY_DIR}/fuzzers.txt "${name}\n")
    endforeach()
  endif()
endfunction()

# A preset that asks for the tests of a folder gets them, or an error: a renamed folder or a lost test file must not turn
# a sanitizer run into an empty one. A folder with code and no tests fails the build of evros_tests; a folder of the plan
# without any code yet is only mentioned.
function(evros_check_test_folders)
  get_property(folders GLOBAL PROPERTY EVROS_FOLDERS)
  foreach(folder ${EVROS_TEST_FOLDERS})
    if(NOT folder IN_LIST folders)
      message(FATAL_ERROR "EVROS_TEST_FOLDERS names '${folder}', which is not a folder of src/")
    elseif(NOT TARGET ${folder})
      message(STATUS "src/${folder} has no code yet: its tests are not part of this build")
    elseif(EVROS_TESTS AND NOT TARGET ${folder}_test)
      add_custom_target(${folder}_has_no_tests
        COMMAND ${CMAKE_COMMAND} -E echo "EVROS_TEST_FOLDERS names '${folder}', but src/${folder} has no *_test.cc"
        COMMAND ${CMAKE_COMMAND} -E false)
      add_dependencies(evros_tests ${folder}_has_no_tests)
    endif()
  endforeach()
endfunction()

# The micro model and its reference files, kept compressed in the tree: <build>/micro/hf (the checkpoint),
# <build>/micro/gguf/micro-{f32,q8_0,q4_0}.gguf and <build>/micro/golden.safetensors, for tests and tools.
set(evros_micro_archive ${CMAKE_SOURCE_DIR}/tests/data/micro/reference.tar.xz)
if(${evros_micro_archive} IS_NEWER_THAN ${CMAKE_BINARY_DIR}/micro/gguf/micro-f32.gguf)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/micro)
  execute_process(COMMAND ${CMAKE_COMMAND} -E tar xf ${evros_micro_archive} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/micro
                  COMMAND_ERROR_IS_FATAL ANY)
  file(TOUCH ${CMAKE_BINARY_DIR}/micro/gguf/micro-f32.gguf)
endif()
