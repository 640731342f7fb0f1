"""The nasty corpus: texts that tokenizers get wrong, and random ones made of such pieces. Valid Unicode only."""

import random

NASTY = [
    "",
    " ",
    "a",
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog.",
    "  two  spaces   three    four ",
    "trailing spaces   ",
    "\n",
    "\n\n\n",
    "\r\n\r\n",
    "a\r\nb\r\n\r\nc\rd\n\re",
    " \n \n  \n\t\n x",
    "\t\ttabs\tand spaces  \t mixed",
    "x\u000b\u000c\u0085\u2028\u2029y",
    "\u00a0nbsp\u2003em\u3000ideographic\u200bzero\u180emongolian\ufeffbom",
    " \u00a0 \u3000\n\u2009 z",
    "don't can't we'll I'm they've you're he'd it's",
    "DON'T CAN'T WE'LL I'M THEY'VE YOU'RE HE'D IT'S",
    "Don'T wE'Ll i'M ThEy'vE yoU'Re 'tis 'Twas 's 'S ''s '' ' s",
    "it\u2019s they\u2019ve don\u2019t",
    "'\u017f long s, '\u017fx, x'\u017f y'L\u017f",
    "0 1 12 123 1234 12345 123456 1234567 12345678901234567890",
    "3.14159 1,000,000 0x1F 1e-9 v1.2.3-rc4 127.0.0.1",
    "\u0661\u0662\u0663\u0664 \u0967\u0968\u0969\u096a \uff11\uff12\uff13\uff14 \u00bd\u00b2\u2163\u3286",
    "x1y22z333 a1b2c3 H2O 4you",
    "camelCase PascalCase SCREAMING_CASE HTTPServer XMLHttpRequest iPhone eBay McDonald",
    "\u01c5ungla \u01c4\u01c6\u01c5 \u00df\u1e9e \u0130stanbul \u0131",
    "path/to/file.txt //comment\n/// doc\n/* x */ http://a.b/c?d=e&f=g#h",
    "!!!???... ---=== ***///\n\n+++ <<<>>> ^^^~~~ ``` ||| $$$ \u20ac\u20ac \u00a3\u00a5",
    "_private __dunder__ -dash- (paren)[bracket]{brace}",
    "int main() {\n\treturn 0;\n}\n\n\n    // four\n        // eight\n",
    "caf\u00e9 na\u00efve \u00fcber \u00e5ngstr\u00f6m",
    "e\u0301 a\u0300\u0301\u0302 decomposed n\u0303o",
    "\u0301leading mark \u0301\u0301 \u0301x .\u0301 5\u0301 \n\u0301",
    "z\u0351\u036b\u0343a\u0329\u034el\u0321g\u0321o",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u8fd9\u662f\u4e2d\u6587\u3002",
    "\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca\u30fc\u6f22\u5b57\uff8a\uff9d\uff76\uff78abc123",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4 \u1112\u1161\u11ab",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f\u061f \u0661\u066b\u0665",
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e04\u0e23\u0e31\u0e1a \u0e1c\u0e21\u0e0a\u0e37\u0e48\u0e2d\u0e2d\u0e40\u0e25\u0e47\u0e01\u0e0b\u0e4c",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u0915\u094d\u0937 \u09ac\u09be\u0982\u09b2\u09be \u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    "\u1780\u17b6\u1793\u17cb\u178f\u17c2\u1796\u17b7\u179f\u17c1\u179f",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0415\u0301\u0436",
    "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5\u03c2",
    "\U0001f600 emoji \U0001f469\u200d\U0001f4bb \U0001f469\U0001f3fd\u200d\u2764\ufe0f\u200d\U0001f468\U0001f3fb \U0001f1e9\U0001f1ea 1\ufe0f\u20e3",
    "\U0001f636\u200d\U0001f32b\ufe0f\u2705\U0001f999\U0001f999\U0001f999",
    "\U0001d400\U0001d41a\U0001d7d8 \U00010400\U00010428 \U0001e900\U0001e922 \U00020000\U0002a6df",
    "\ufffd\ufffe\uffff\U0010ffff\ue000",
    "\x00nul\x00\x01\x02\x1b[0m\x7f",
    "\x1c\x1d\x1e\x1f separators",
    "a" * 70,
    "ab" * 40 + " " + "ba" * 40,
    " " * 67 + "x",
    "\n" * 33 + " " * 9 + "\t" * 5 + "end",
    "0" * 50,
    "=" * 65 + "\n" + "-" * 64,
    "\U0001f680" * 20,
    "\u4e00" * 20,
    "x" + " \n" * 20,
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|><|im_end|><|endoftext|><think>\n\nok\n</think>",
    "<|im_start <|im_start|im_end|> <||> <|im_end|>|> <think <think>>",
    "a<think>b</think>c <tool_call>{\"x\": 1}</tool_call>",
    "\u2581\u2581visible \u2581 spaces",
    "<s>not special</s> <unk> <0x0A>",
    "Qu\u1ed1c ng\u1eef Ti\u1ebfng Vi\u1ec7t, C\u1eeda Vie\u0302\u0301t",
    "\u02b0\u02b1\u02b2 \u1d2c\u1d2d modifiers \u2160\u2161 \u24d0\u24b6",
    "\u00aa\u00ba ordinal \u00b5micro \u2126ohm \u212akelvin",
    "end\u3002\u300c\u5f15\u7528\u300d\u300e\u4e8c\u91cd\u300f\uff08\u62ec\u5f27\uff09~\uff5e\u2014\u2014\u2026\u2026",
]

PIECES = (
    list("aZzQ09.,'/!<>|_-=+ \n\r\t\"$~^`()[]{}#@%&*;:?\\")
    + ["  ", "\r\n", "\n\n", "'s", "'LL", "'Ve", "the", " The", "ing", "HTTP", "123", "1234", " 42", "...", "//", "\u00e9", "e\u0301"]
    + ["\u0301", "\u0e31", "\u093f", "\u00a0", "\u3000", "\u2028", "\u200d", "\ufe0f", "\u4e2d", "\u3042", "\u30ab", "\ud55c", "\u0628"]
    + ["\u0664", "\u00bd", "\u01c5", "\u02b0", "\u00df", "\u20ac", "\uff0c", "\u2019", "\U0001f600", "\U0001d400", "\u2581", "\x00"]
)


def random_texts(count, seed):
    """Texts of 1 to 24 pieces, some of them repeated."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        text = ""
        for _ in range(draw.randint(1, 24)):
            text += draw.choice(PIECES) * (draw.randint(2, 9) if draw.random() < 0.1 else 1)
        texts.append(text)
    return texts
