evros_use_codebooks(kernels)
if(TARGET kernels_test)
  add_custom_target(codec_golden DEPENDS ${evros_codec_golden})
  add_dependencies(kernels_test codec_golden)
endif()

# Beside the reference: the tables that this build has, slowest first (src/kernels/select.cc).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(EVROS_TABLES ref_fma avx2 avx512bw avx512 amx CACHE STRING "kernel tables beside the reference")
else()
  set(EVROS_TABLES "")
endif()
list(TRANSFORM EVROS_TABLES REPLACE "(.+)" "EVROS_TABLE(\\1)\n" OUTPUT_VARIABLE host_tables)
list(JOIN host_tables "" host_tables)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/kernels/host_tables.inc CONTENT "${host_tables}" @ONLY)

# The kernels of x86-64 that need more than the baseline instruction set, each under its own namespace (src/kernels/isa.h):
# the reference sources with hardware fused multiply-add, and the vector tables, which are the sources of src/kernels/cpu
# together with the reference sources (for the entries that have no vector version).
if(TARGET kernels AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  file(GLOB ref_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/ref/*.cc)
  list(FILTER ref_sources EXCLUDE REGEX "_test\\.cc$")
  file(GLOB cpu_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/cpu/*.cc)
  list(FILTER cpu_sources EXCLUDE REGEX "_test\\.cc$")
  set(ref_parts ${ref_sources})
  list(FILTER ref_parts EXCLUDE REGEX "/table\\.cc$")

  # evros_isa(isa SOURCES... FLAGS...): objects of one instruction set, and the check that they share nothing with others.
  function(evros_isa isa)
    if(NOT isa IN_LIST EVROS_TABLES)
      return()
    endif()
    cmake_parse_arguments(ARG "" "" "SOURCES;FLAGS" ${ARGN})
    set(objects kernels_${isa})
    add_library(${objects} OBJECT ${ARG_SOURCES})
    target_include_directories(${objects} PRIVATE ${CMAKE_SOURCE_DIR}/src)
    evros_use_codebooks(${objects})
    # -O3 whatever the build type: these run whole models in tests, and optimisation cannot change a bit.
    target_compile_options(${objects} PRIVATE ${ARG_FLAGS} -O3)
    target_compile_definitions(${objects} PRIVATE EVROS_ISA=${isa})
    target_sources(kernels PRIVATE $<TARGET_OBJECTS:${objects}>)
    if(EVROS_TESTS AND NOT EVROS_SANITIZE)  # sanitizers add shared symbols of their own
      add_test(NAME kernels_isa_${isa} COMMAND ${CMAKE_SOURCE_DIR}/src/kernels/check_isa.sh ${isa} yes
               $<TARGET_OBJECTS:${objects}> COMMAND_EXPAND_LISTS)
    endif()
  endfunction()

  evros_isa(ref_fma SOURCES ${ref_sources} FLAGS -mfma)
  if(TARGET kernels_ref_fma)
    target_compile_definitions(kernels_ref_fma PRIVATE EVROS_TABLE_NAME=ref-fma)
  endif()
  evros_isa(avx2 SOURCES ${ref_parts} ${cpu_sources} FLAGS -mavx2 -mfma -mf16c)
  set(avx512bw_flags -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  evros_isa(avx512bw SOURCES ${ref_parts} ${cpu_sources} FLAGS ${avx512bw_flags})
  evros_isa(avx512 SOURCES ${ref_parts} ${cpu_sources} FLAGS ${avx512bw_flags} -mavx512vnni)
  evros_isa(amx SOURCES ${ref_parts} ${cpu_sources} FLAGS ${avx512bw_flags} -mavx512vnni -mamx-tile -mamx-int8 -DEVROS_TILES)
  target_compile_definitions(kernels PRIVATE EVROS_X86_TABLES)
  if(EVROS_TESTS AND NOT EVROS_SANITIZE)
    set(baseline "$<FILTER:$<TARGET_OBJECTS:kernels>,INCLUDE,/ref/>")
    add_test(NAME kernels_isa_ref COMMAND ${CMAKE_SOURCE_DIR}/src/kernels/check_isa.sh ref no ${baseline}
             COMMAND_EXPAND_LISTS)
    # What the linker makes of it, with the baseline's objects first and with them last.
    if(TARGET kernels_test)
      set(isas ${EVROS_TABLES})
      list(TRANSFORM isas REPLACE "(.+)" "$<TARGET_OBJECTS:kernels_\\1>" OUTPUT_VARIABLE wide)
      set(forward $<TARGET_OBJECTS:kernels> ${wide})
      set(backward ${wide} $<TARGET_OBJECTS:kernels>)
      foreach(order forward backward)
        add_executable(kernels_linked_${order} ${${order}} $<TARGET_OBJECTS:kernels_test>)
        set_target_properties(kernels_linked_${order} PROPERTIES LINKER_LANGUAGE CXX)
        target_link_libraries(kernels_linked_${order} PRIVATE device format GTest::gtest_main)
        add_dependencies(evros_tests kernels_linked_${order})
        add_test(NAME kernels_linked_${order} COMMAND ${CMAKE_SOURCE_DIR}/src/kernels/check_link.sh
                 $<TARGET_FILE:kernels_linked_${order}> ${isas})
      endforeach()
    endif()
  endif()
endif()

# The CUDA kernels on machines without a GPU: the same sources run by src/kernels/cuda/emulate.h, under the tests of the host's
# tables. Its coroutines are more than sanitizers follow.
if(TARGET kernels_test AND NOT EVROS_SANITIZE)
  set(emulated ${CMAKE_SOURCE_DIR}/src/kernels/cuda/emulated_test.cc)
  set_source_files_properties(${emulated} PROPERTIES COMPILE_DEFINITIONS "EVROS_ISA=cuda;EVROS_EMULATE_CUDA"
                              COMPILE_OPTIONS "-O2;-fno-strict-aliasing")
  evros_test_program(kernels_cuda_emulated_test
    SOURCES ${emulated} ${CMAKE_SOURCE_DIR}/src/kernels/cuda/bits_test.cc
            "$<FILTER:$<TARGET_OBJECTS:kernels_test>,INCLUDE,/kernels/(ref|cpu)/>"
    LIBS kernels device format)
endif()
