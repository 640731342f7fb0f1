// Which tokens end a generation. Files name one or two; models emit others as well, which are known by their
// texts. A text counts only where the file marks the token as control: Qwen3 has an ordinary token "</s>",
// for instance.
#include <algorithm>
#include <string_view>

#include "text/tokenizer.h"

namespace coterie::text {

void Tokenizer::collect_ends(const VocabularyData& data) {
    static constexpr std::string_view texts[] = {
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "<|tool_response>",
        "[e~[",
        "<\xef\xbd\x9c"
        "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",  // DeepSeek, with full-width bars
        "<|observation|>",                                     // GLM: the tool's turn
        "<|fim_pad|>",
        "<fim-pad>",
        "<fim_pad>",
        "<PAD>",  // what follows a completed infill
        "<|fim_repo|>",
        "<|repo_name|>",
        "<fim-repo>",
        "<REPO>",
        "<|file_sep|>",
    };
    const auto control = [&](std::string_view text) -> int32_t {
        const SpecialTokens::Match match = special_.find(text, 0, true);
        const bool whole = match.begin == 0 && match.length == text.size() && match.id >= 0;
        return whole && types_[match.id] == TokenType::control ? match.id : -1;
    };
    for (const std::string_view text : texts) ends_.push_back(control(text));
    const auto drop = [&](std::string_view text) { std::erase(ends_, control(text)); };
    // In the harmony format <|end|> closes a message that the model goes on after.
    const bool harmony = control("<|return|>") >= 0 && control("<|call|>") >= 0;
    const bool solar = control("<|calls|>") >= 0 && control("<|flush|>") >= 0;
    if (harmony || solar) drop("<|end|>");
    if (control("<|tool_response>") >= 0) drop("</s>");

    // What the file names counts whatever its type.
    for (const int64_t id :
         {int64_t(eos_), int64_t(eot_), data.eom, data.fim_pad, data.fim_rep, data.fim_sep})
        ends_.push_back(id_in_vocabulary(id));
    for (const int64_t id : data.more_eos) ends_.push_back(id_in_vocabulary(id));
    std::sort(ends_.begin(), ends_.end());
    ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
    std::erase(ends_, -1);
}

}  // namespace coterie::text
