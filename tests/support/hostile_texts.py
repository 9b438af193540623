"""Texts that break what takes them for markup, for code, for a path, or for plain text of any length.

`TEXTS` by what each is; `HALVES` are half surrogates, which no UTF-8 holds but JSON and file names bring;
`is_plain` says of a text whether a terminal, a log or a reader can be misled by it.
"""

from __future__ import annotations

import unicodedata

from markdown_it import MarkdownIt

TEXTS = {
    "markup of rich": "[/x]",
    "a style of rich": "[bold red on white]x[/]",
    "a link of rich": "[link=http://evil]x[/link]",
    "clears the screen": "\x1b[2J\x1b[H",
    "sets the title": "\x1b]0;pwned\x07",
    "C1 control sequence": "\x9b31mred",
    "overrides direction": "a\u202egpj.exe",
    "isolates": "\u2066hidden\u2069",
    "zero width": "cl\u200bick\ufeff",
    "NUL": "a\0b",
    "no character of XML": "a\ufffeb\uffff",
    "newlines": "one\ntwo\r\nthree\u2028four\x85five",
    "tab and return": "a\tb\rc",
    "quotes": 'it\'s "quoted" `so`',
    "backslashes": "\\ \\n \\x1b \\",
    "braces": "{a,b} {0} {subject} {text} ${HOME}",
    "format": "%s %(x)s %n",
    "a template": "{{ 7 * 7 }}{% raw %}",
    "goes up": "../../etc/passwd",
    "a folder": "a/b=c/%2F",
    "the overflow": "_overflow",
    "HTML": "<script>alert(1)</script>&amp;",
    "a mention": "<!channel> @everyone",
    "other mentions": "@here @all <@123> <!subteam^S1> a@channel",
    "a link of a chat": "[x](http://evil) <http://evil|x>",
    "an image of a chat": "![x](http://evil.example/x.png) ![x][1] [1]: http://evil.example",
    "addresses": "https://evil.example www.evil.com ftp://evil.example",
    "a formula": "=cmd|'/c calc'!A1",
    "SQL": "'; DROP TABLE x; --",
    "an option": "--config=/etc/passwd",
    "the shell": "$(reboot) `reboot` ; reboot",
    "YAML": "a: b # c",
    "a word of YAML": "null",
    "every type": "*",
    "tags of StatsD": "a|c#x:1,y=2@0.1",
    "300 characters": "x" * 300,
    "200 bytes": "é" * 100,
    "right to left": "שלום עולם",
    "marks": "e" + "\u0301" * 40,
    "beyond the first plane": "🙂 日本",
    "empty": "",
    "spaces": "   ",
}
HALVES = {"the first half": "a\ud83d", "the second half": "\ude42b", "both, turned": "\ude42\ud83d"}


# The signs that look alike in what is sent to chats, and what they stand for.
_ALIKE = str.maketrans("\uff20\uff0f\uff3d\uff0e\u2039\u203a\uff06", "@/].<>&")


def as_sent(text: str) -> str:
    """What a text was before signs of it were replaced by others that look alike."""
    return text.translate(_ALIKE)


def links(text: str) -> list[str]:
    """Where a reader of Markdown is led by links and images of a text, also by bare addresses."""
    reader = MarkdownIt("gfm-like")
    reader.linkify.set({"fuzzy_link": "www." in text.lower(), "fuzzy_email": False})
    inline = [token for block in reader.parse(text) for token in block.children or ()]
    return [token.attrs.get("href") or token.attrs["src"] for token in inline if token.attrs]


def is_plain(text: str) -> bool:
    """Nothing in it but what is seen where it stands, and ordinary spaces."""
    return not any(unicodedata.category(c)[0] in "C" or unicodedata.category(c) in ("Zl", "Zp") for c in text)
