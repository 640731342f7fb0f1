// Messages and tools on their way from a caller's JSON to a template: one spelling for every form clients
// send, and other ways to say what a template has no words for.
#pragma once
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja_value.h"

namespace coterie::text {

using Messages = std::vector<jinja::Dict>;

// Reads and checks. Afterwards every message has a role and a content (a string, or a list of text parts),
// calls have an id, the type "function" and arguments as an object where they are one; results have a name
// and the id of their call; reasoning is under reasoning_content and thinking.
Messages read_messages(std::string_view json);
jinja::Value read_tools(std::string_view json);  // none when there are none

// Fits them to what the template can do; `tools` becomes none when they had to be put into words.
void fit_to_template(Messages& messages, jinja::Value& tools, const ChatCapabilities& capabilities,
                     std::string_view source);

// For templates that insist on turns that alternate: neighbours of one role become one message, a late system
// message becomes the user's.
Messages with_alternating_roles(const Messages& messages);

void strip_reasoning(Messages& messages);
jinja::Value as_value(const Messages& messages);
std::string role_of(const jinja::Dict& message);

}  // namespace coterie::text
