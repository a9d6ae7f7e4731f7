# The libraries of docs: all from Debian packages (tools/setup.sh installs them), all linked statically or header-only.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81.0 EXACT CONFIG REQUIRED COMPONENTS headers json)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)

# One imported target per pkg-config package, its static archive and SYSTEM include folder.
function(evros_static_package name module archive)
  pkg_check_modules(${name} REQUIRED QUIET ${module})
  find_library(${name}_ARCHIVE NAMES ${archive} REQUIRED)
  add_library(PkgConfig::${name} INTERFACE IMPORTED)
  target_include_directories(PkgConfig::${name} SYSTEM INTERFACE ${${name}_INCLUDE_DIRS})
  target_link_libraries(PkgConfig::${name} INTERFACE ${${name}_ARCHIVE} ${ARGN})
endfunction()

evros_static_package(pcre2 libpcre2-8 libpcre2-8.a)
evros_static_package(utf8proc libutf8proc libutf8proc.a)
evros_static_package(xxhash libxxhash libxxhash.a)
evros_static_package(edit libedit libedit.a tinfo bsd)
