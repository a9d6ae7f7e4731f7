# The reference kernels a second time, with hardware fused multiply-add, under their own namespace (src/kernels/isa.h).
if(TARGET kernels AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  file(GLOB ref_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/ref/*.cc)
  list(FILTER ref_sources EXCLUDE REGEX "_test\\.cc$")
  add_library(kernels_ref_fma OBJECT ${ref_sources})
  target_include_directories(kernels_ref_fma PRIVATE ${CMAKE_SOURCE_DIR}/src)
  # -O3 whatever the build type: these run whole models in tests, and optimisation cannot change a bit.
  target_compile_options(kernels_ref_fma PRIVATE -mfma -O3)
  target_compile_definitions(kernels_ref_fma PRIVATE EVROS_ISA=ref_fma EVROS_TABLE_NAME=ref-fma)
  target_sources(kernels PRIVATE $<TARGET_OBJECTS:kernels_ref_fma>)
  target_compile_definitions(kernels PRIVATE EVROS_HAVE_REF_FMA)
  if(EVROS_TESTS AND NOT EVROS_SANITIZE)  # sanitizers add shared symbols of their own
    set(check ${CMAKE_SOURCE_DIR}/src/kernels/check_isa.sh)
    set(baseline "$<FILTER:$<TARGET_OBJECTS:kernels>,INCLUDE,/ref/>")
    set(fused "$<FILTER:$<TARGET_OBJECTS:kernels_ref_fma>,INCLUDE,/ref/>")
    add_test(NAME kernels_isa_ref COMMAND ${check} ref no ${baseline} COMMAND_EXPAND_LISTS)
    add_test(NAME kernels_isa_ref_fma COMMAND ${check} ref_fma yes ${fused} COMMAND_EXPAND_LISTS)
  endif()
endif()
