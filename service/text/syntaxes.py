"""The syntaxes of copied text: URLs, placeholders, tags, emoji, rare symbols, code words."""

from collections.abc import Sequence
from typing import Final, NamedTuple

PROSE_COMMANDS: Final = (
    r"emph|underline|text(?:bf|it|sc|sf|rm)|chapter\*?|(?:sub){0,2}section\*?|paragraph|title|caption|footnote"
)
"""Commands of LaTeX whose argument is a text."""


class Syntax(NamedTuple):
    """A way to write one kind of copied text."""

    name: str
    pattern: str
    sign: str = ""
    """An expression for a part of each match, which is searched for first; "" for a symbol (`_SYMBOL`)."""
    examples: Sequence[str] = ()
    """Copied whole, wherever they stand."""
    counterexamples: Sequence[str] = ()
    """Similar text that is translated."""


_DOMAINS: Final = ("com", "org", "net", "edu", "gov", "info", "io", "eu", "de", "fr", "uk")
_SHORT_DOMAINS: Final = "ai app be cc co dev gd gg gl im is link ly me page sh to tv".split()
# Not those that are words or names, too: the end.so, Node.js.
_EXTENSIONS: Final = (
    "avi bmp cfg conf csv css db deb dll docx? epub exe flac gif gz html? ico ini ipynb iso jpe?g json log m4a mkv mo "
    "mov mp[34] odp ods odt ogg otf pdf php png po pptx? psd py rar rst rtf s?css sh sql srt svg tar tex tgz tiff? "
    "toml ts[vx] ttf txt vtt wav webm webp woff2? xlsx? xml xz ya?ml zip"
).split()
_HOST: Final = r"(?<![\w@.-])(?:[a-z0-9-]{1,63}\.){1,8}"
_PATH: Final = r"[^\s<>\[\]\"]*[\w/]"
_OPERAND: Final = r"(?:(?![aAI]\b)\p{L}|\d{1,9}(?:[.,]\d{1,9})*)"
# A break within a text, as programs write it. What begins like one in LaTeX is a command.
BREAK: Final = (
    r"\\[nrt](?:(?=$|[\s\"'A-ZÀ-Þ\\])"
    r"|(?<=[\w.,;:!?)\]]\\.)(?!\w*[\\{\[]|(?<=n)(?:ewline|ewpage|oindent|onumber)\b))"
)
_DATE_FIELD: Final = r"(?:[yY]{2}(?:[yY]{2})?|M{1,4}|[dD]{1,4}|[Hh]{1,2}|m{1,2}|s{1,2}|S{1,3})"


def _braces(levels: int) -> str:
    """Return an expression for text in braces, which may hold braces of so many levels less one."""
    inside = rf"[^{{}}]|{_braces(levels - 1)}" if levels > 1 else r"[^{}]"
    return rf"\{{(?:{inside}){{0,1000}}+\}}"


SYNTAXES: Final = (
    Syntax(
        "URL",
        r"\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.|mailto:)"
        # Square brackets only as pairs, of an address or an array: others are those of BBCode around it.
        r"(?:[^\s<>()\[\]\"“”«»]|\([^\s<>()\[\]\"“”«»]*\)|\[[0-9A-Fa-f:.]{0,39}\])+(?<![.,:;!?…'’}])",
        r"://|www\.|mailto:",
        ("https://example.org/a?b=1&c=2", "www.example.org", "mailto:a@b.org", "ftp://x.y/z_(w)"),
    ),
    Syntax(
        "e-mail address",
        r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}",
        "@",
        ("anna.berg+x@mail.example.org",),
        ("meet @ 5",),
    ),
    Syntax(
        "domain or short link",
        rf"{_HOST}(?:(?:{'|'.join(_SHORT_DOMAINS)})/{_PATH}|(?:{'|'.join(_DOMAINS)})\b(?:/{_PATH})?)"
        rf"|\blocalhost\b(?::\d{{1,5}})?(?:/{_PATH})?",
        r"\.[a-z]|localhost",
        ("docs.python.org/3/library", "example.com", "youtu.be/dQw4w9WgXcQ", "bit.ly/3abc", "localhost:80/x"),
        ("It is late.it seems", "Mr.Smith", "and/or", "km/h", "red/green/blue", "The end.he/she left"),
    ),
    Syntax(
        "path",
        r"(?<![\w/.])(?:(?:~|\.\.?)?(?:/[\w.@+-]{1,100}){2,40}|(?:~|\.\.?)/[\w.@+-]{1,100})(?<!\.)/?",
        "/",
        ("/etc/hosts", "~/notes", "./run.sh", "/usr/local/bin/"),
        ("yes/no", "1/2", "and / or"),
    ),
    Syntax(
        "Windows path",
        # A folder's name may have spaces, but then before capitals and digits: others are words of the sentence.
        r"(?<![\w\\])(?:[A-Za-z]:|\\\\[\w.-]{1,60})\\"
        r"(?:[^\s\\/:*?\"<>|]{1,60}(?: [A-Z0-9(][^\s\\/:*?\"<>|]{0,40}){0,4}\\){0,40}"
        r"[^\s\\/:*?\"<>|]{0,100}(?<![.,;!?)'”’»])",
        r"\\",
        (r"C:\Users\me\file.txt", r"D:\Program Files (x86)\x\y", r"\\server\share\a.doc"),
    ),
    Syntax(
        "escape",
        rf"{BREAK}|\\(?:u[0-9a-fA-F]{{4}}|x[0-9a-fA-F]{{2}}|[NnrtVvCcIiGg]\[[^\]\n]{{0,20}}\])",
        r"\\",
        (r"\n", r"\t", r"\u00e9", r"\C[2]", r"\N[1]"),
    ),
    Syntax(
        "command",
        # Not those whose argument is prose: light markup has them as pairs.
        rf"(?<!\w)(?!{BREAK})\\(?:(?!(?:{PROSE_COMMANDS})\{{)[A-Za-z]{{1,30}}\*?(?:\[[^\[\]\n]{{0,80}}\]|\{{[^{{}}\n]{{0,80}}\}}){{0,4}}|[^\w\s])",
        r"\\",
        (r"\log", r"\cite{knuth84}", r"\includegraphics[width=2cm]{a.png}", r"\%"),
    ),
    Syntax(
        "formula",
        r"(?<![\w$])\$(?:[^\s$\d]|(?=[^$\n]{0,200}[\\^_={}+])[^\s$\d][^$\n]{0,200}(?<!\s))\$(?![\w$])",
        r"\$",
        ("$x^2 + y$", r"$\alpha$", "$x$"),
        ("$5 or 5$",),
    ),
    Syntax(
        "ICU message",
        r"\{\s{0,9}[\w.]{1,60}\s{0,9},\s{0,9}(?:plural|select|selectordinal|number|date|time)\b"
        rf"(?:[^{{}}]|{_braces(4)}){{0,2000}}+\}}",
        "{",
        ("{count, plural, one {# file} other {# files}}", "{when, date, short}"),
    ),
    Syntax(
        "template",
        r"[$%#]?\{\{?[^{}\n]{0,80}\}?\}|<%[^<>\n]{0,80}%>",
        "{|<%",
        ("{{ user.name }}", "<% x %>", "{{< figure >}}", *r"{name} ${x} %{name} #{x} {} {0:.2f} {\an8}".split()),
    ),
    Syntax(
        "tag",
        r"</?(?:[A-Za-z][\w:.-]{0,40}(?:\s[^<>\n]{0,200})?|[0-9]{1,4})\s?/?>",
        "<",
        ("<br/>", "</b>", '<a href="x y">', "<0>", "</0>", "<1/>"),
        ("a < b > c",),
    ),
    Syntax("mention", r"<[@#!&:]{1,2}[\w:]{1,80}>", "<", ("<@123>", "<#42>", "<@&7>", "<:smile:12>")),
    Syntax(
        "printf",
        r"(?<![\w%])%(?:\([\w.]+\)|[0-9]+\$)?[-+#0']?[0-9]*(?:\.[0-9]+)?(?:hh?|ll?|[zjtqL])?"
        r"(?:@|[sSdiufFeEgGxXoacCn](?![A-Za-z]))(?:%%)?|(?<![\w%])%(?:%|L?[1-9](?!\d))",
        "%",
        "%s %(count)d %1$s %.2f %@ %1$@ %2$lld %zu %'d %S %% %1 %n %L1 %d%%".split(),
        ("100 % sure", "50%des", "100% of it"),
    ),
    Syntax(
        "variable",
        r"\$t\([^()\n]{1,80}\)|\$[A-Za-z_]\w*\$?|(?<!\w)%[A-Z_]{2,}%|__[A-Z_]+__|\[[A-Z][A-Z0-9_]+\]"
        r"|(?<=[\w,] )\[[a-z][a-z0-9]*(?:[_.][a-z0-9]+)+\]",
        r"[$%\[]|__",
        ("$t(common.help)", "$USER$", "$HOME", "%APPDATA%", "__NAME__", "[NAME]"),
        ("costs $5 or 5$", "[sic] (or)"),
    ),
    Syntax(
        "route parameter",
        r"(?<![\w:/)\]}*\"'”»]):[a-z][a-z0-9_]{1,40}(?![\w:])",
        ":",
        (":name", ":count"),
        ("12:30", "note: this", "a::b", ": this", "(for two):flour"),
    ),
    Syntax(
        "emoji name",
        r"(?<![\w:]):[a-z0-9_+-]{2,60}:(?![\w:])",
        ":",
        (":thumbs_up:", ":material-plus-circle:", ":+1:"),
        ("10:20:30",),
    ),
    Syntax("wiki link", r"\[\[[^\[\]|\n]{1,200}\]\]", r"\[\[", ("[[Shopping List]]",)),
    Syntax(
        "shortcode",
        r"\[/?[a-z][\w-]{0,40}(?:\s[\w-]{1,40}=(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[^\s\]\"']{1,200})){1,20}\s?/?\]"
        r"|\[[a-z]{1,12}=[^\[\]\n]{1,200}\]|\[/[a-z][\w-]{0,40}\]",
        r"\[",
        ('[gallery ids="1,2"]', "[url=https://a.org]", "[/url]", "[color=red]"),
        ("[sic]", "[optional]"),
    ),
    Syntax("code span", r"`[^`\n]{1,200}`", "`", ("`a b`",)),
    Syntax(
        "handle",
        r"(?<![\w/])@[A-Za-z_]\w+|(?<![\w/&])#[A-Za-z_]\w+",
        "[@#]",
        ("@anna_b", "#summer2024"),
        ("#1 of 3",),
    ),
    Syntax(
        "identifier",
        r"\b(?=[A-Z0-9-]{4})[A-Z]{1,6}(?:[0-9]|-[0-9]{3})[A-Z0-9]*(?:-[A-Z0-9]+){0,4}\b|\b[A-Za-z0-9]{1,40}(?:_[A-Za-z0-9]{1,40}){1,20}\b"
        r"|\b[a-z]{2,30}[A-Z][A-Za-z0-9]{0,40}\b|\b[0-9]{1,40}[A-Z]{1,20}[0-9][A-Z0-9]{5,40}\b"
        # Models make words of names such as ImageMagick. A gendered German word, as LehrerInnen, is none.
        r"|\b[A-Z][A-Za-z0-9]{0,40}?[a-z]{2}(?!Innen)[A-Z][A-Za-z0-9]{2,40}\b",
        r"[A-Z]-?[0-9]|[a-z][A-Z]|_",
        ("INV-0001", "DP001", "BOTTOM_LEFT", "R1C2", "user_name", "getName", "1Z999AA10123456784", "ImageMagick"),
        ("1990S", "2ND", "NASA", "A4", "McDonald", "COVID-19", "iPhone", "2000EUR", "10H30", "LehrerInnen"),
    ),
    Syntax(
        "code",
        r"\bUTF-(?:8|16|32)\b|(?<![\w:])[A-Za-z_]\w{1,40}(?:::[A-Za-z_]\w{1,40}){1,8}|\b[A-Za-z_][\w.]{0,40}\(\)"
        r"|(?<![\w.])\.(?:NET|bashrc|env|git[a-z]{4,10}|htaccess|npmrc)\b|\bC\+\+(?:[0-9]{2})?(?!\w)"
        r"|\b[A-Z][a-z]{1,20}\.js\b|(?<![\w.,^])[0-9]{1,9}\^-?[0-9]{1,9}(?![\w^]|[.,]\d)",
        r"UTF|::|\(\)|\.[a-zN]|\+\+|[0-9]\^",
        ("UTF-8", "std::vector", "foo.bar()", ".gitignore", ".NET", "C++17", "Vue.js", "10^6"),
        ("a::b", "The end.Next", "node.js", "and so on ...then"),
    ),
    Syntax(
        "qualified name",
        r"(?<![\w.@/-])[a-z]\w{1,40}(?:\.[a-z]\w{0,40}){1,8}\.[A-Z]\w{1,60}\b",
        r"[a-z0-9]\.[A-Z]",
        ("java.util.logging.ConsoleHandler", "org.a.Name"),
        ("It ends.Then another", "e.g. This", "at the end.See it"),
    ),
    Syntax(
        "UUID",
        r"\b(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b",
        "-[0-9a-fA-F]{4}-",
        ("550e8400-e29b-41d4-a716-446655440000",),
    ),
    Syntax(
        "file name",
        rf"(?<![\w@.-])\w[\w-]{{0,60}}(?:\.[\w-]{{1,20}}){{0,4}}\.(?:{'|'.join(_EXTENSIONS)})\b(?![\w-]|\.\w)",
        r"\.[a-z]",
        ("config.yaml", "report_v2.pdf", "archive.tar.gz", "IMG-0012.jpeg"),
        ("The end.so he", "etc.", "e.g. this", "Mr.Smith", "node.js"),
    ),
    Syntax(
        "date format",
        rf"\b{_DATE_FIELD}(?:[-/:.]{_DATE_FIELD}){{1,5}}\b",
        r"[yYMdDHhms][-/:.][yYMdDHhms]",
        ("mm:ss", "YYYY-MM-DD", "dd/MM/yyyy", "HH:mm:ss"),
        ("a.m.", "km/h", "s.o.s.", "M. D."),
    ),
    Syntax(
        "entity",
        r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});",
        "&",
        ("&amp;", "&hellip;", "&#160;"),
    ),
    # A model that has seen few of them drops them or makes words of their bytes.
    Syntax("rare currency", r"(?![$€£])\p{Sc}", "", ("₹", "¥"), ("€5 or £5",)),
    Syntax(
        "fraction",
        r"(?:(?<!\d)\d{1,9}(?:[.,]\d{3}){0,4}[ \u00a0]?)?[\u00bc-\u00be\u2150-\u215e]",
        "",
        ("5½", "1,250 ¾", "⅛"),
    ),
    # With a number or a letter on each side.
    Syntax(
        "mathematical sign",
        r"[\u2190-\u21ff]|"
        rf"(?:(?<![\w.,]){_OPERAND} ?)?(?![+<>=|~])[[\p{{Sm}}--[\u2190-\u21ff]]](?: ?{_OPERAND}(?!\w))?",
        "",
        ("x ≤ 5", "3 × 4", "∞", "2 × 1.5", "→"),
        ("2 + 2 = 4",),
    ),
    # A unit or a formula. More letters are a word, and the small number behind it is that of a note.
    Syntax(
        "index or power",
        r"(?<!\w)[A-Za-z]{0,2}[\u00b2\u00b3\u00b9\u2070-\u209c][A-Za-z0-9\u00b2\u00b3\u00b9\u2070-\u209c]{0,8}(?!\w)",
        "",
        ("m²", "CO₂", "H₂O"),
        ("a word¹ with a note",),
    ),
    Syntax(
        "emoji",
        r"[0-9#*]\ufe0f?\u20e3|(?:\p{Extended_Pictographic}|\p{Regional_Indicator})"
        r"[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}\u200d\ufe0f\u20e3\U000e0020-\U000e007f]*",
        "",
        ("👩‍🚀", "🇫🇷", "❤️", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"),
    ),
)
"""All syntaxes, in texts of every format."""
