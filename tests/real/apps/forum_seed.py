"""
What is in the forum. Runs by itself, in the forum's folder, with its settings; nothing here is imported by the tests.

Everything is fixed: two forums made by this are alike to the word.
"""

from __future__ import annotations

import datetime as dt

import django
from django.core.management import call_command

START = dt.datetime(2026, 3, 1, 8, 0, tzinfo=dt.UTC)
USERS = ("ash", "beech", "hazel", "holly")
CATEGORIES = (
    ("Planting", "When, where and how"),
    ("Wildlife", "Who lives in it"),
    ("Tools", "Bill-hooks, gloves and stakes"),
)
SUBJECTS = (
    "Laying a hedge in winter",
    "Hawthorn or blackthorn",
    "Gaps at the bottom",
    "A wren's nest in April",
    "How deep do roots go",
    "Stakes of sweet chestnut",
    "The oldest hedge of the parish",
    "Dormice and where to look",
    "Binders and heathering",
    "Mulch, or leave it be",
)
SAYINGS = (
    "Cut low, and at a slant, so that the rain runs off.",
    "Ours was planted by my grandfather and has never been laid.",
    "Wait for a dry day; wet gloves are no gloves.",
    "It depends on the soil. On clay I would not dig at all.",
    "There is a good chapter about this in the old county survey.",
    "We counted eleven kinds of bird there last spring.",
    "Leave the ivy. It flowers when nothing else does.",
)
LONG = {"Laying a hedge in winter, part 1": 64, "Hawthorn or blackthorn, part 1": 44, "Gaps at the bottom, part 1": 25}
"""Topics of more than one page (there are 20 comments to a page)."""
MENTIONED = "The oldest hedge of the parish, part 2"


def seed() -> None:
    call_command("migrate", verbosity=0)
    call_command("createcachetable", verbosity=0)
    _users()
    _topics(_categories())
    _mention()
    call_command("rebuild_index", interactive=False, verbosity=0)


def _users() -> None:
    from django.contrib.auth import get_user_model

    for name in USERS:
        user = get_user_model().objects.create_user(name, f"{name}@example.org", f"{name}-in-the-hedge")
        user.st.nickname = name.capitalize()
        user.st.is_verified = True
        user.st.save()


def _categories() -> list:
    from spirit.category.models import Category

    return [Category.objects.create(title=title, description=about) for title, about in CATEGORIES]


def _topics(categories: list) -> None:
    from django.contrib.auth import get_user_model
    from spirit.comment.models import Comment
    from spirit.core.utils.markdown import Markdown
    from spirit.topic.models import Topic

    users = list(get_user_model().objects.order_by("pk"))
    titles = [f"{subject}, part {part}" for part in (3, 2, 1) for subject in reversed(SUBJECTS)]
    at = START
    for n, title in enumerate(titles):
        topic = Topic.objects.create(title=title, user=users[n % len(users)], category=categories[n % len(categories)])
        comments = []
        for m in range(1 + LONG.get(title, n % 4)):
            at += dt.timedelta(minutes=7)
            text = f"{SAYINGS[(n + m) % len(SAYINGS)]} This is no. {m + 1} about *{title}*."
            html = Markdown().render(text)
            comments.append(
                Comment(topic=topic, user=users[(n + m) % len(users)], comment=text, comment_html=html, date=at)
            )
        Comment.objects.bulk_create(comments)
        Topic.objects.filter(pk=topic.pk).update(comment_count=len(comments), date=at, last_active=at)


def _mention() -> None:
    """Somebody has mentioned Hazel: the bell has something to show, by a link that only a script writes."""
    from django.contrib.auth import get_user_model
    from spirit.comment.models import Comment
    from spirit.topic.notification.models import TopicNotification

    hazel = get_user_model().objects.get(username="hazel")
    comment = Comment.objects.filter(topic__title=MENTIONED).order_by("pk").last()
    TopicNotification.objects.create(
        user=hazel, topic=comment.topic, comment=comment, action=TopicNotification.MENTION, is_active=True
    )


if __name__ == "__main__":
    django.setup()
    seed()
