# The web page in the program: every file of src/server/page as a line of a table, in
# <build>/generated/server/page_files.inc, which src/server/page.cc includes. Made anew when one of them changes.
#
# This file is also the script that writes it: cmake -DASSETS=folder -DOUTPUT=file -P page.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  set(type_.html "text/html; charset=utf-8")
  set(type_.css "text/css; charset=utf-8")
  set(type_.js "text/javascript; charset=utf-8")
  set(type_.svg "image/svg+xml")
  file(GLOB files ${ASSETS}/*)
  set(table "")
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    get_filename_component(extension ${file} LAST_EXT)
    if(NOT DEFINED type_${extension})
      message(FATAL_ERROR "${file}: no content type is known for '${extension}'; it is one of .html .css .js .svg")
    endif()
    string(REGEX REPLACE "^index\\.html$" "" path "${name}")
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
    file(SHA256 ${file} digest)
    string(SUBSTRING ${digest} 0 32 digest)
    string(APPEND table "{\"/${path}\", \"${type_${extension}}\", \"${bytes}\"sv, \"\\\"${digest}\\\"\"},\n")
  endforeach()
  file(WRITE ${OUTPUT} "${table}")
  return()
endif()

if(NOT TARGET server)
  return()
endif()
set(page_table ${CMAKE_BINARY_DIR}/generated/server/page_files.inc)
file(GLOB page_assets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/server/page/*)
add_custom_command(
  OUTPUT ${page_table}
  COMMAND ${CMAKE_COMMAND} -DASSETS=${CMAKE_SOURCE_DIR}/src/server/page -DOUTPUT=${page_table} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${page_assets} ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Putting the page into a table"
  VERBATIM)
target_sources(server PRIVATE ${page_table})
target_include_directories(server PRIVATE ${CMAKE_BINARY_DIR}/generated)
