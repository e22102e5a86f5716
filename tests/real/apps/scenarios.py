"""
What people do in the forum and in the wiki, from the first page to logging out.

They go by what is to be seen: roles, labels, words, icons. No URL is typed but the site's own, and none is looked at,
so that the same scenario runs against the bare application and behind Hedgerow, whatever its links look like.

Each needs an application that was just started: a forum remembers where its user has read to.
"""

from __future__ import annotations

import re

from playwright.sync_api import FilePayload, Locator, Page, expect

from . import forum as the_forum
from . import wiki as the_wiki
from .visitor import PICTURE, Record, Visitor

WORD = "bramble"
"""In all that is written: nothing that was seeded has it."""
PAGE = "Bramble"
"""The page that is written in the wiki."""


def forum(page: Page, base: str) -> Record:
    """Spirit: read, page, log in, like, comment, edit, post a topic with a picture, search, log out."""
    visitor = Visitor(page, base)
    visitor.go()
    _read_the_forum(visitor)
    _log_into_the_forum(visitor)
    _page_through_a_topic(visitor)
    _comment(visitor)
    _post_a_topic(visitor)
    _search_the_forum(visitor)
    _change_the_avatar(visitor)
    _read_a_notification(visitor)
    _log_out_of_the_forum(visitor)
    return visitor.record


def wiki(page: Page, base: str) -> Record:
    """DokuWiki: read, jump, log in, search, write, edit, upload, compare, page, log out."""
    visitor = Visitor(page, base)
    visitor.go()
    _read_the_wiki(visitor)
    _log_into_the_wiki(visitor)
    _search_the_wiki(visitor)
    _write_a_page(visitor)
    _edit_the_page(visitor)
    _manage_media(visitor)
    _look_at_changes(visitor)
    _look_at_the_sitemap(visitor)
    _log_out_of_the_wiki(visitor)
    return visitor.record


def _picture(name: str) -> FilePayload:
    return {"name": name, "mimeType": "image/jpeg", "buffer": PICTURE}


def _link(page: Page, name: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("link", name=name, exact=isinstance(name, str)).first


def _button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name)


def _heading(page: Page, name: str) -> Locator:
    return page.get_by_role("heading", name=name).first


# The forum.


def _read_the_forum(visitor: Visitor) -> None:
    page = visitor.page
    stakes = "Stakes of sweet chestnut, part 1"
    visitor.click(_link(page, stakes), _heading(page, stakes), "opened a topic")
    visitor.in_new_tab(_link(page, "Planting"), _link, "Binders and heathering, part 1", "its category in a new tab")
    visitor.click(_link(page, "Planting"), _link(page, "Binders and heathering, part 1"), "its category")
    visitor.back(_heading(page, stakes))
    visitor.forward(_link(page, "Binders and heathering, part 1"))
    visitor.reload(_link(page, "Binders and heathering, part 1"))
    # The lists of topics take every click of the first button by a script of their own.
    visitor.in_new_tab(_link(page, stakes), _heading, stakes, "a topic by the middle button", middle=True)
    # A menu that a script opens; its link leads to "#".
    with visitor.staying("the menu of categories"):
        _link(page, re.compile("Planting .")).click()
        _link(page, "All Categories").wait_for()
    visitor.click(_link(page, "All Categories"), _link(page, "Hawthorn or blackthorn, part 1"), "all categories")
    visitor.click(_link(page, "2"), _link(page, "Mulch, or leave it be, part 3"), "second page of all topics")


def _log_into_the_forum(visitor: Visitor) -> None:
    page = visitor.page
    visitor.click(_link(page, "Log in"), _button(page, "Login"), "asked to log in")
    page.get_by_label("Username").fill(the_forum.USER)
    page.get_by_label("Password").fill("not this one")
    visitor.click(_button(page, "Login"), page.get_by_text("Please enter a correct"), "mistook the password")
    page.get_by_label("Username").fill(the_forum.USER)
    page.get_by_label("Password").fill(the_forum.PASSWORD)
    # Back to the page on which they asked to log in.
    visitor.click(_button(page, "Login"), _link(page, "Mulch, or leave it be, part 3"), "logged in")
    _link(page, re.compile("Hazel")).wait_for()


def _page_through_a_topic(visitor: Visitor) -> None:
    page = visitor.page
    winter = "Laying a hedge in winter, part 1"
    visitor.click(_link(page, "Spirit"), _link(page, winter), "to the front page")
    visitor.click(_link(page, winter), page.get_by_text("Page 1 of 4"), "opened a long topic")
    pager = page.get_by_role("list").filter(has_text=re.compile(r"^Page \d of \d"))
    onward = pager.get_by_role("link").filter(has=page.locator(".fa-chevron-right"))
    for n in (2, 3):
        visitor.click(onward.first, page.get_by_text(f"Page {n} of 4"), f"turned to page {n}")
    visitor.back(page.get_by_text("Page 2 of 4"))
    visitor.forward(page.get_by_text("Page 3 of 4"))
    visitor.click(onward.first, page.get_by_text("This is no. 65 about"), "turned to page 4")
    visitor.click(_link(page, re.compile("First$")), page.get_by_text("This is no. 1 about"), "turned to page 1")
    visitor.click(
        _link(page, re.compile("^. Last|^Last")), page.get_by_text("This is no. 65 about"), "turned to the last page"
    )


def _comment(visitor: Visitor) -> None:
    page = visitor.page
    like = _link(page, re.compile(r"\blike \(\d+\)"))
    with visitor.staying("liked a comment", requests=1):
        like.click()
        _link(page, re.compile(r"remove like \(\d+\)")).wait_for()
    visitor.done("liked a comment")
    with visitor.staying("replied"):
        _link(page, "reply").click()
    said = page.get_by_placeholder("Write comment...")
    expect(said).to_be_in_viewport()
    visitor.done("went to the reply")
    said.fill(f"The {WORD} says: wait until it is dry.")
    with visitor.staying("a preview"):
        page.get_by_title("Preview").click()
        page.get_by_text(f"The {WORD} says").wait_for()
        page.get_by_title("Preview").click()
    mine = page.get_by_role("paragraph").filter(has_text=f"The {WORD} says")
    visitor.click(_button(page, "Publish"), mine, "published a comment")
    expect(mine).to_be_in_viewport()
    edit = page.locator(".js-comment").filter(has=mine).get_by_role("link", name="edit")
    visitor.click(edit, _heading(page, "Edit comment"), "went to edit it")
    page.get_by_label("Comment").fill(f"The {WORD} says: wait until it is **quite** dry.")
    visitor.click(_button(page, "Publish"), mine.get_by_text("quite"), "published the edited comment")
    history = page.locator(".js-comment").filter(has=mine).get_by_role("link").filter(has=page.locator(".fa-pencil"))
    visitor.click(history, _heading(page, "Comment history"), "looked at its history")
    visitor.back(mine)


def _post_a_topic(visitor: Visitor) -> None:
    page = visitor.page
    title = f"A {WORD} by the gate"
    visitor.click(_link(page, "Spirit"), _link(page, "Create Topic"), "to the front page")
    visitor.click(_link(page, "Create Topic"), _heading(page, "Publish topic"), "went to write a topic")
    page.get_by_label("Title").fill(title)
    page.get_by_label("Category").select_option(label="Planting")
    page.get_by_label("Comment").fill(f"See this {WORD}:\n\n")
    with page.expect_file_chooser() as chooser:
        page.get_by_title("Image").click()
    with visitor.staying("uploaded a picture", requests=1):
        chooser.value.set_files(_picture("gate.jpeg"))
        expect(page.get_by_label("Comment")).to_have_value(re.compile(r"!\[gate\.jpeg\]\(.+\)"))
    visitor.done("uploaded a picture")
    visitor.click(_button(page, "Publish"), _heading(page, title), "published the topic")
    _see_picture(page, "gate.jpeg")
    visitor.reload(_heading(page, title))
    visitor.click(
        _heading(page, title).get_by_role("link", name="edit"), _heading(page, "Update topic"), "went to edit it"
    )
    page.get_by_label("Title").fill(f"{title}, and another")
    visitor.click(_button(page, "Update"), _heading(page, f"{title}, and another"), "renamed the topic")
    visitor.click(_link(page, "Planting"), _link(page, f"{title}, and another"), "saw it in its category")


def _see_picture(page: Page, name: str) -> None:
    picture = page.get_by_role("img", name=name)
    picture.wait_for()
    assert picture.evaluate("node => node.naturalWidth") == 24, "the picture is not the one that was uploaded"


def _search_the_forum(visitor: Visitor) -> None:
    page = visitor.page
    with visitor.staying("opened the search"):
        page.get_by_role("banner").get_by_role("link").filter(has=page.locator(".fa-search")).click()
    box = page.get_by_role("banner").get_by_role("searchbox").or_(page.get_by_role("banner").get_by_role("textbox"))
    box.fill("dormice")
    box.press("Enter")
    found = _link(page, "Dormice and where to look, part 2")
    found.wait_for()
    visitor.done("searched")
    visitor.in_new_tab(
        found, _heading, "Dormice and where to look, part 2", "opened what was found in a tab", middle=True
    )
    visitor.click(found, _heading(page, "Dormice and where to look, part 2"), "opened what was found")
    visitor.back(found)


def _change_the_avatar(visitor: Visitor) -> None:
    page = visitor.page
    _open_user_menu(visitor)
    visitor.click(_link(page, "Profile"), _link(page, re.compile("Preferences")), "opened the profile")
    visitor.click(_link(page, re.compile("Preferences")), _heading(page, "Preferences"), "opened the preferences")
    page.get_by_label("Avatar").set_input_files(_picture("me.jpeg"))
    visitor.click(_button(page, "Save"), page.get_by_text("Your profile has been updated"), "changed the avatar")


def _read_a_notification(visitor: Visitor) -> None:
    """The list is fetched as JSON and its links are written by a script."""
    page = visitor.page
    mention = _link(page, re.compile("has mention you on The oldest hedge"))
    with visitor.staying("opened the notifications", requests=1):
        page.get_by_role("banner").get_by_role("link").filter(has=page.locator(".fa-bell")).click()
        mention.wait_for()
    visitor.done("opened the notifications")
    visitor.click(mention, _heading(page, "The oldest hedge of the parish, part 2"), "followed a notification")


def _open_user_menu(visitor: Visitor) -> None:
    with visitor.staying("opened the menu"):
        visitor.page.get_by_role("banner").get_by_role("link", name=re.compile("Hazel")).click()
        _link(visitor.page, "Log out").wait_for()


def _log_out_of_the_forum(visitor: Visitor) -> None:
    page = visitor.page
    _open_user_menu(visitor)
    visitor.click(_link(page, "Log out"), _link(page, "Log in"), "logged out")
    visitor.back(_heading(page, "The oldest hedge of the parish, part 2"))
    visitor.reload(_link(page, "Log in"))


# The wiki.


def _main(page: Page, name: str | re.Pattern[str]) -> Locator:
    """A link in the text of a page, and not around it."""
    return page.get_by_role("main").get_by_role("link", name=name, exact=isinstance(name, str)).first


def _title(page: Page, name: str) -> Locator:
    """The heading of a wiki page. Above it is the heading of the wiki itself."""
    return page.get_by_role("main").get_by_role("heading", name=name, exact=True).first


def _read_the_wiki(visitor: Visitor) -> None:
    page = visitor.page
    visitor.click(_main(page, "Trees"), _title(page, "Trees"), "opened an overview")
    visitor.click(_main(page, "Hawthorn"), _title(page, "Hawthorn"), "opened a page")
    visitor.jump(_main(page, "History"), _title(page, "History"), "jumped by the table of contents")
    visitor.jump(_main(page, "looks"), _title(page, "Looks"), "jumped by a link in the text")
    note = _main(page, "1)")
    note.hover(force=True)  # the tooltip comes to lie over it
    page.get_by_role("tooltip").get_by_text("The parish books").wait_for()
    note_below = page.get_by_role("main").get_by_role("link", name="1)").last
    visitor.jump(note, note_below, "jumped to a note", by_key=True)
    with visitor.staying("back over jumps"):
        page.go_back()
        page.go_back()
        page.wait_for_timeout(100)
    visitor.at_top(_title(page, "History"))
    onward = _main(page, "how it was with Blackthorn")
    visitor.click(onward, _title(page, "Blackthorn"), "opened a page at one of its sections")
    visitor.at_top(_title(page, "History"))
    visitor.back(_title(page, "Hawthorn"))
    visitor.forward(_title(page, "Blackthorn"))
    visitor.reload(_title(page, "Blackthorn"))
    visitor.in_new_tab(_main(page, "Hazel"), _title, "Hazel", "opened a page in a new tab")
    visitor.in_new_tab(_main(page, "Robin"), _title, "Robin", "a page by the middle button", middle=True)
    visitor.click(_main(page, "trees"), _title(page, "Trees"), "up to the overview")
    visitor.click(_link(page, "Hawthorn"), _title(page, "Hawthorn"), "by the trace")
    visitor.click(page.get_by_role("banner").get_by_role("link", name="Hedges").first, _title(page, "Hedges"), "home")


def _log_into_the_wiki(visitor: Visitor) -> None:
    page = visitor.page
    visitor.click(_link(page, "Log In"), _title(page, "Login"), "asked to log in")
    button = _button(page, "Log In")
    page.get_by_label("Username").fill(the_wiki.USER)
    page.get_by_label("Password").fill(the_wiki.PASSWORD)
    visitor.click(button, page.get_by_text("Logged in as:"), "logged in")


def _search_the_wiki(visitor: Visitor) -> None:
    page = visitor.page
    box = page.get_by_role("search").get_by_role("textbox")
    with visitor.staying("typed into the search", requests=None):
        box.press_sequentially("yellowhammer", delay=10)
        page.get_by_role("search").get_by_role("link", name="Yellowhammer").wait_for()
    visitor.done("saw suggestions")
    visitor.click(
        page.get_by_role("search").get_by_role("link", name="Yellowhammer"), _title(page, "Yellowhammer"), "one of them"
    )
    box.fill("parish books")
    box.press("Enter")
    _title(page, "Search").wait_for()
    found = _main(page, re.compile("^Axe"))
    found.wait_for()
    visitor.done("searched")
    visitor.in_new_tab(found, _title, "Axe", "opened what was found in a new tab")
    visitor.click(found, _title(page, "Axe"), "opened what was found")
    page.get_by_role("main").locator(".search_hit").first.wait_for()
    visitor.back(found)


def _write_a_page(visitor: Visitor) -> None:
    page = visitor.page
    box = page.get_by_role("search").get_by_role("textbox")
    box.fill(WORD)
    page.get_by_role("search").get_by_role("button", name="Search").click()
    create = _main(page, re.compile(WORD))
    create.wait_for()
    visitor.done("searched for what is not there")
    visitor.click(create, _button(page, "Save"), "went to write it")
    lines = [
        "====== Bramble ======",
        "It has thorns. See [[trees:hawthorn]].",
        "===== Fruit =====",
        "Black.",
    ]
    page.get_by_role("main").get_by_role("textbox").first.fill("\n\n".join(lines))
    visitor.click(_button(page, "Preview"), page.get_by_text("It has thorns").last, "looked at a preview")
    visitor.still()  # it scrolls to it
    page.get_by_label("Edit summary").fill("A new one")
    visitor.click(_button(page, "Save"), _link(page, re.compile("Edit this page")), "saved the page")
    _title(page, PAGE).wait_for()
    visitor.click(_main(page, "Hawthorn"), _title(page, "Hawthorn"), "followed its link")
    visitor.back(_title(page, PAGE))


def _edit_the_page(visitor: Visitor) -> None:
    """Its second section, with a picture from the popup that uploads."""
    page = visitor.page
    visitor.click(_button(page, "Edit").last, _button(page, "Save"), "went to edit a section")
    text = page.get_by_role("main").get_by_role("textbox").first
    expect(text).to_have_value(re.compile("Black"))
    text.fill("===== Fruit =====\n\nBlack, and sweet in September.\n\n")
    text.press("Control+End")
    with page.expect_popup() as opened:
        _button(page, "Add Images and other files").click()
    popup = opened.value
    choose, upload, insert = popup.get_by_text("Select files"), *(_button(popup, name) for name in ("Upload", "Insert"))
    choose.wait_for()
    visitor.done("opened the media popup", popup)
    with popup.expect_file_chooser() as chooser:
        choose.click()
    chooser.value.set_files(_picture("bramble.jpeg"))
    uploaded = popup.get_by_role("link", name="bramble.jpeg").first
    upload.click()
    uploaded.wait_for()
    visitor.done("uploaded a picture", popup)
    uploaded.click()
    insert.wait_for()
    visitor.done("chose it", popup)
    with popup.expect_event("close"):
        # The window closes during the click, so a real click would fail now and then.
        insert.evaluate("node => setTimeout(() => node.click())")
    expect(text).to_have_value(re.compile(WORD + r"\.jpeg"))
    page.wait_for_timeout(1100)  # the wiki sorts changes by the second
    visitor.click(_button(page, "Save"), page.get_by_text("sweet in September"), "saved the section")
    picture = page.get_by_title("bramble.jpeg").locator("img")
    assert picture.evaluate("node => node.naturalWidth"), "the picture is broken"
    up = _link(page, re.compile(f"Back to {WORD}"))
    visitor.click(picture, up, "opened the picture's page")
    visitor.click(up, picture, "and went up from there")


def _manage_media(visitor: Visitor) -> None:
    page = visitor.page
    name = "bramble.jpeg"
    visitor.click(_link(page, "Media Manager"), _title(page, "Media Manager"), "opened the media manager")
    with visitor.staying("looked at a picture", requests=1):
        page.get_by_role("main").get_by_role("link", name=name).first.click()
        page.get_by_role("link", name="View original file").wait_for()
    visitor.done("looked at a picture")
    with visitor.staying("turned to uploading", requests=1):
        page.get_by_role("main").get_by_role("link", name="Upload", exact=True).click()
        page.get_by_text("Select files").wait_for()
    visitor.done("turned to uploading")


def _look_at_changes(visitor: Visitor) -> None:
    page = visitor.page
    visitor.click(_link(page, "Recent Changes"), _title(page, "Recent Changes"), "opened the recent changes")
    older, newer = (_button(page, name) for name in ("less recent", "more recent"))
    visitor.click(older, newer, "older changes")
    visitor.back(older)
    visitor.click(_main(page, PAGE), _title(page, PAGE), "the newest change")
    visitor.click(_link(page, re.compile("Old revisions")), _title(page, "Old Revisions"), "its revisions")
    for box in page.get_by_role("checkbox").all()[:2]:
        box.check()
    visitor.click(_button(page, "Show differences").first, _title(page, "Differences"), "compared two")
    visitor.click(_link(page, re.compile("Backlinks")), _title(page, "Backlinks"), "who links to it")


def _look_at_the_sitemap(visitor: Visitor) -> None:
    page = visitor.page
    visitor.click(_link(page, "Sitemap"), _title(page, "Sitemap"), "opened the sitemap")
    with visitor.staying("opened a branch", requests=1):
        page.get_by_role("main").get_by_role("link", name="birds", exact=True).click()
        _main(page, "Linnet").wait_for()
        visitor.still()  # it slides open
    visitor.done("opened a branch")
    visitor.click(_main(page, "Linnet"), _title(page, "Linnet"), "opened a page of it")


def _log_out_of_the_wiki(visitor: Visitor) -> None:
    page = visitor.page
    visitor.click(_link(page, "Log Out"), _link(page, "Log In"), "logged out")
    visitor.reload(_link(page, "Log In"))
    visitor.click(_link(page, re.compile("Show page")), _title(page, "Linnet"), "to the page")
    visitor.click(
        _link(page, re.compile("Show pagesource")), page.get_by_text("This page is read only"), "may only read"
    )
