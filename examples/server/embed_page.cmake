# Writes page_files.h: each file of the page as a string. cmake -DSOURCE=... -DOUTPUT=... -P embed_page.cmake
set(text "// Made from examples/server/page by the build.\n#pragma once\n\nnamespace server {\n")
foreach(kind html css js)
  file(READ ${SOURCE}/page.${kind} content)
  string(APPEND text "inline constexpr char page_${kind}[] = R\"PAGE(${content})PAGE\";\n")
endforeach()
string(APPEND text "}  // namespace server\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)  # a new time would compile it again
  file(WRITE ${OUTPUT} "${text}")
endif()
