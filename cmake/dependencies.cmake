# The libraries of docs: all from Debian packages (tools/setup.sh installs them), all linked statically or header-only.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81.0 EXACT CONFIG REQUIRED COMPONENTS headers json)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)

# One imported target per pkg-config package: its static archive, the archives that one needs, its SYSTEM include folder.
function(evros_static_package name module)
  pkg_check_modules(${name} REQUIRED QUIET ${module})
  add_library(PkgConfig::${name} INTERFACE IMPORTED)
  target_include_directories(PkgConfig::${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIRS})
  foreach(archive ${ARGN})
    find_library(EVROS_${archive} NAMES ${archive} REQUIRED)
    mark_as_advanced(EVROS_${archive})
    target_link_libraries(PkgConfig::${name} INTERFACE ${EVROS_${archive}})
  endforeach()
endfunction()

evros_static_package(pcre2 libpcre2-8 libpcre2-8.a)
evros_static_package(utf8proc libutf8proc libutf8proc.a)
evros_static_package(xxhash libxxhash libxxhash.a)
evros_static_package(edit libedit libedit.a libtinfo.a libbsd.a libmd.a)
evros_static_package(crypto libcrypto libcrypto.a)
