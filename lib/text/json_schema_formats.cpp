// Formats of JSON Schema as regular expressions. Each derives only what strict validators accept, the shorter
// the better: dates exist in the calendar, hosts are lower-case ASCII.
#include "text/json_schema_rules.h"

namespace coterie::text {
namespace {

#define COTERIE_DATE                                                                                         \
    "([12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|" \
    "1[0-9]|2[0-8]))"                                                                                        \
    "|([12][0-9](0[48]|[2468][048]|[13579][26])|(1[26]|2[048])00)-02-29)"
#define COTERIE_TIME \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define COTERIE_LABEL "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?"
#define COTERIE_OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define COTERIE_HEX4 "[0-9a-fA-F]{1,4}"

struct Format {
    std::string_view name, pattern;
};

constexpr Format formats[] = {
    {"date", "^" COTERIE_DATE "$"},
    {"time", "^" COTERIE_TIME "$"},
    {"date-time", "^" COTERIE_DATE "T" COTERIE_TIME "$"},
    {"duration",
     "^P([1-9][0-9]{0,3}Y([1-9][0-9]{0,3}M([1-9][0-9]{0,3}D)?)?|[1-9][0-9]{0,3}M([1-9][0-9]{0,3}D)?|[1-9][0-"
     "9]{0,3}[DW]|"
     "T([1-9][0-9]{0,3}H([1-9][0-9]{0,3}M([1-9][0-9]{0,3}S)?)?|[1-9][0-9]{0,3}M([1-9][0-9]{0,3}S)?|[1-9][0-9]"
     "{0,3}S))$"},
    {"email", "^[a-zA-Z0-9_+-]{1,30}(\\.[a-zA-Z0-9_+-]{1,20}){0,3}@" COTERIE_LABEL "(\\." COTERIE_LABEL
              "){0,3}\\.[a-z]{2,12}$"},
    {"hostname", "^" COTERIE_LABEL "(\\." COTERIE_LABEL "){0,4}\\.[a-z]{2,12}$"},
    {"ipv4", "^" COTERIE_OCTET "(\\." COTERIE_OCTET "){3}$"},
    {"ipv6", "^(" COTERIE_HEX4 "(:" COTERIE_HEX4 "){7}|(" COTERIE_HEX4 ":){1,6}:" COTERIE_HEX4
             "|::(" COTERIE_HEX4 ":){0,5}" COTERIE_HEX4 "|::)$"},
    {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
    {"uri", "^https?://" COTERIE_LABEL "(\\." COTERIE_LABEL
            "){0,4}(:[1-9][0-9]{1,3})?(/[a-zA-Z0-9._~!$&'()*+,;=:@-]*)*"
            "(\\?[a-zA-Z0-9._~!$&'()*+,;=:@/-]*)?(#[a-zA-Z0-9._~!$&'()*+,;=:@/-]*)?$"},
};

}  // namespace

std::string_view format_pattern(std::string_view format) {
    for (const Format& known : formats)
        if (known.name == format) return known.pattern;
    return {};
}

}  // namespace coterie::text
