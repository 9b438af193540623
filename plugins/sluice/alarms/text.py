"""The message of a notice, and its forms for those who read markup. Pure."""

from __future__ import annotations

import html

from sluice.alarms.decide import Notice
from sluice.plain_text import line

MOST = 50
LINE_CHARACTERS = 2_000
_AT = "\uff20"  # a full-width @
_ALIKE = str.maketrans({"@": _AT, "<": "\u2039", ">": "\u203a"})


def subject(pipeline: str, notice: Notice) -> str:
    """`[sluice] adx: 2 problems, 1 over`."""
    count = len(notice.raised)
    parts = [f"{count} problem{'s' if count != 1 else ''}"] if count else []
    parts += [f"{len(notice.cleared)} over"] if notice.cleared else []
    return f"[sluice] {pipeline}: {', '.join(parts)}"


def body(notice: Notice) -> str:
    """A line for each problem, and for each that is over since when it was open."""
    lines = [f"PROBLEM {alarm.problem}" for alarm in notice.raised]
    lines += [
        f"OVER {alarm.problem.kind}: {alarm.problem.place} (open since {alarm.since})"
        for alarm in notice.cleared
    ]
    more = [f"and {len(lines) - MOST:,} more: `sluice status` and `sluice verify` show all"]
    shown = [line(text, LINE_CHARACTERS) for text in lines[:MOST]]
    return "\n".join(shown + (more if len(lines) > MOST else []))


def mail(text: str) -> str:
    """The body of a mail: HTML in which nothing of the text is markup."""
    return f"<pre>{html.escape(text)}</pre>"


def chat(text: str) -> str:
    """What Slack, and who takes its webhooks, shows as `text`: no link, no mention.

    Source: https://docs.slack.dev/messaging/formatting-message-text#escaping. Discord and Mattermost find
    `@everyone` and `@channel` in plain text, too.
    """
    return html.escape(text.replace("@", _AT), quote=False)


def unaddressed(text: str) -> str:
    """`text` for a reader of whom nobody knows what is markup to it: what calls people in Slack, Discord and
    Mattermost (`@everyone`, `<!channel>`, `<@123>`) is there with signs that look alike."""
    return text.translate(_ALIKE)
