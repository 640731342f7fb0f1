// Serves the page. A browser that asks for HTML gets it; Ollama's clients get the line that they look for.
#include "page.h"

#include <page_files.h>  // made by the build

namespace server {

void add_page(Http& http) {
    http.get("/", [](const httplib::Request& request, const std::string&, httplib::Response& response) {
        if (request.get_header_value("Accept").find("text/html") == std::string::npos)
            return response.set_content("Ollama is running", "text/plain; charset=utf-8");
        response.set_header("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'");
        response.set_content(page_html, "text/html; charset=utf-8");
    });
    http.get("/favicon.ico", [](const httplib::Request&, const std::string&, httplib::Response& response) {
        response.set_content(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='#2f62b5'><circle cx='8' "
            "cy='4' r='3'/>"
            "<circle cx='4' cy='11' r='3'/><circle cx='12' cy='11' r='3'/></svg>",
            "image/svg+xml");
    });
    http.get("/page.css", [](const httplib::Request&, const std::string&, httplib::Response& response) {
        response.set_content(page_css, "text/css; charset=utf-8");
    });
    http.get("/page.js", [](const httplib::Request&, const std::string&, httplib::Response& response) {
        response.set_content(page_js, "text/javascript; charset=utf-8");
    });
}

}  // namespace server
