"""
The applications: what each is made of, how it is built and served, and what the walk does in it.

A step is an action, what it acts on, and a selector of what is to be seen afterwards:

    goto PATH, click SELECTOR, hover SELECTOR, fill SELECTOR=TEXT, scroll SELECTOR, back, forward, reload;
    offline: the servers are stopped, and stay so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Step(NamedTuple):
    """One step of a walk."""

    action: str
    on: str = ""
    shows: str = ""


@dataclass(frozen=True)
class App:
    """
    An application.

    *npm* and *python* are its packages; *copies* are files of packages that its folder gets. *build* is run once,
    *serve* for every walk; there `{port}`, `{data}` (an empty folder) and `{static}` (the program that serves files)
    are filled in. *ready* is a path that answers when the application is up. *varies* are expressions for what differs
    between two walks without Hedgerow as well. *quiet* are the seconds without a request after which a page is
    complete: more, where a script waits before it loads something. *looks_at* is for an application that
    asks its server again and again and shows what it does: only the text of this element is compared, and which
    requests there are, not how many. *is_light* applications are part of `make test`. *debian* are files of Debian's
    packages that `tools/packages apps` installs.
    """

    name: str
    steps: tuple[Step, ...]
    serve: str
    npm: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    copies: dict[str, str] = field(default_factory=dict)
    build: tuple[str, ...] = ()
    ready: str = "/"
    varies: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    newer_node: bool = False
    quiet: float = 0.15
    looks_at: str = ""
    is_light: bool = False
    debian: tuple[str, ...] = ()


def _pages(*more: Step) -> tuple[Step, ...]:
    """Walk the pages that each of our own small applications has: by links, in the history, and by reloading."""
    return (
        Step("goto", "/", "h1:text('Home')"),
        Step("click", "a:text-is('About')", "h1:text('About')"),
        Step("click", "a:text-is('Item 2')", "h1:text('Item 2')"),
        Step("back", "", "h1:text('About')"),
        Step("forward", "", "h1:text('Item 2')"),
        Step("reload", "", "h1:text('Item 2')"),
        Step("click", "a:text-is('Home')", "h1:text('Home')"),
        *more,
    )


_COUNT = (
    Step("click", "button:text('Count')", "output:text('1')"),
    Step("click", "a:text-is('About')", "h1:text('About')"),
)
_REACT = ("react@19.3.1", "react-dom@19.3.1")
_VITE = "vite@8.3.8"

APPS = (
    App(
        "htmx",
        _pages(
            Step("click", "button:text('Load')", "#loaded a:text('Item 1')"),
            Step("click", "#loaded a:text('Item 1')", "h1:text('Item 1')"),
            Step("goto", "/list", "h1:text('List')"),
            Step("scroll", "#more", "li:text('Row 40')"),
            Step("click", "li:has-text('Row 40') a", "h1:text('Item 2')"),
        ),
        "{static} {port} .",
        npm=("htmx.org@4.0.0",),
        copies={"htmx.js": "node_modules/htmx.org/dist/htmx.min.js"},
        is_light=True,
    ),
    App(
        "turbo",
        _pages(
            Step("click", "a:text-is('In the frame')", "#frame :text('Inside')"),
            Step("click", "button:text('Send')", "h1:text('About')"),
            Step("hover", "a:text-is('Home')", "h1:text('About')"),
            Step("click", "a:text-is('Home')", "h1:text('Home')"),
        ),
        "{static} {port} .",
        npm=("@hotwired/turbo@8.0.23",),
        copies={"turbo.js": "node_modules/@hotwired/turbo/dist/turbo.es2017-esm.js"},
        is_light=True,
    ),
    App(
        "vue",
        _pages(*_COUNT),
        "{static} {port} dist --fallback",
        npm=(_VITE, "@vitejs/plugin-vue@6.0.10", "vue@3.5.45", "vue-router@5.4.0"),
        build=("vite build",),
    ),
    App(
        "react",
        _pages(*_COUNT),
        "{static} {port} dist --fallback",
        npm=(_VITE, "@vitejs/plugin-react@6.3.0", *_REACT, "react-router@7.18.4"),
        build=("vite build",),
    ),
    App(
        "offline",
        (
            Step("goto", "/", "#ready:text('ready')"),
            Step("click", "a:text-is('About')", "h1:text('About')"),
            Step("click", "a:text-is('Item 2')", "h1:text('Item 2')"),
            Step("offline"),
            Step("click", "a:text-is('Home')", "h1:text('Home')"),
            Step("click", "a:text-is('About')", "h1:text('About')"),
            Step("reload", "", "h1:text('About')"),
            Step("goto", "/item/2", "h1:text('Item 2')"),
            Step("goto", "/never", "h1:text('Offline')"),
        ),
        "{static} {port} .",
        is_light=True,
    ),
    App(
        "next",
        _pages(*_COUNT),
        "next start -H 127.0.0.1 -p {port}",
        npm=("next@16.4.6", *_REACT),
        build=("next build",),
    ),
    App(
        "react-router",
        _pages(*_COUNT),
        "react-router-serve build/server/index.js",
        npm=(
            "@react-router/dev@8.4.0", "@react-router/node@8.4.0", "@react-router/serve@8.4.0", "react-router@8.4.0",
            _VITE, *_REACT, "isbot@5.2.3",
        ),
        build=("react-router build",),
        variables={"HOST": "127.0.0.1"},
        newer_node=True,
    ),
    App(
        "sveltekit",
        _pages(*_COUNT),
        "node build",
        npm=(
            "@sveltejs/kit@3.1.1", "@sveltejs/adapter-node@6.0.1", "@sveltejs/vite-plugin-svelte@7.3.1",
            "svelte@5.57.3", _VITE,
        ),
        build=("vite build",),
        variables={"HOST": "127.0.0.1"},
        newer_node=True,
    ),
    App(
        "nuxt",
        _pages(*_COUNT),
        "node .output/server/index.mjs",
        npm=("nuxt@4.5.2", "vue@3.5.45", "vue-router@5.4.0"),
        build=("nuxt build",),
        variables={"HOST": "127.0.0.1"},
        newer_node=True,
    ),
    App(
        "astro",
        _pages(*_COUNT),
        "node dist/server/entry.mjs",
        npm=("astro@7.3.5", "@astrojs/node@11.1.6", "@astrojs/react@7.0.0", *_REACT),
        build=("astro build",),
        quiet=1.0,
        variables={"HOST": "127.0.0.1"},
        newer_node=True,
    ),
    App(
        "angular",
        _pages(*_COUNT),
        "node dist/app/server/server.mjs",
        npm=(
            *(f"@angular/{name}@22.2.0" for name in (
                "common", "compiler", "compiler-cli", "core", "platform-browser", "platform-server", "router",
            )),
            "@angular/build@22.2.0", "@angular/cli@22.2.0", "@angular/ssr@22.2.0", "express@5.3.0", "rxjs@7.8.2",
            "tslib@2.9.1", "typescript@6.0.3",
        ),
        build=("ng build",),
        newer_node=True,
    ),
    App(
        "gatsby",
        _pages(*_COUNT),
        "gatsby serve -H 127.0.0.1 -p {port}",
        npm=("gatsby@5.16.1", "react@18.3.1", "react-dom@18.3.1", "ajv@8.17.1"),
        build=("gatsby build",),
        # It waits for three seconds before it loads what links lead to.
        quiet=4.0,
    ),
    App(
        "dash",
        (
            Step("goto", "/", "h1:text('Home')"),
            Step("click", "a:text-is('About')", "h1:text('About')"),
            Step("click", "a:text-is('Item 2')", "h1:text('Item 2')"),
            Step("back", "", "h1:text('About')"),
            Step("reload", "", "h1:text('About')"),
            Step("click", "a:text-is('Home')", "h1:text('Home')"),
            Step("click", "button:text('Count')", "output:text('1')"),
        ),
        "python app.py",
        python=("dash==4.4.1",),
        varies=(r"\b[A-Za-z0-9]{24}~[0-9a-f]{64}\b",),
    ),
    App(
        "django",
        (
            Step("goto", "/admin/", "#id_username"),
            Step("fill", "#id_username=admin"),
            Step("fill", "#id_password=secret"),
            Step("click", "input[type=submit]", "a:text('Log out'), button:text('Log out')"),
            Step("click", "#content a:text-is('Groups')", "h1:text('Select group')"),
            Step("click", "a:text-is('2')", "a:text('Group 149')"),
            Step("fill", "#searchbar=Group 24"),
            Step("click", "#changelist-search input[type=submit]", "a:text('Group 249')"),
            Step("click", "a:text-is('Group 249')", "#id_name"),
            Step("fill", "#id_name=Group 249 renamed"),
            Step("click", "input[name=_continue]", ".success"),
            Step("click", "a:text-is('History')", "#change-history"),
            Step("back", "", "#id_name"),
            Step("click", "a:text-is('Delete')", "input[type=submit]"),
            Step("click", "input[type=submit]", ".success"),
            Step("click", "button:text('Log out')", "a:text('Log in again')"),
        ),
        "python site_app.py",
        python=("django==5.2.19",),
        ready="/admin/login/",
        varies=(
            r'name="csrfmiddlewaretoken" value="\w+"',
            r"\b(?:\w+ \d+, 2\d\d\d, )?\d+:\d\d (?:a|p)\.m\.|\b(?:noon|midnight)",
        ),
    ),
    App(
        "streamlit",
        (
            Step("goto", "/", "[data-test-script-state=notRunning] button:has-text('Greet')"),
            Step("fill", "input=Ada"),
            Step("press", "Enter"),
            Step("click", "button:has-text('Greet')", "p:text('Hello, Ada')"),
            Step("reload", "", "[data-test-script-state=notRunning] button:has-text('Greet')"),
        ),
        "streamlit run app.py --server.port {port} --server.address 127.0.0.1 --server.headless true "
        "--browser.gatherUsageStats false --server.fileWatcherType none",
        python=("streamlit==1.67.0",),
        varies=(r"stAppEmbeddingId-\w+",),
        quiet=1.0,
    ),
    App(
        "gradio",
        (
            Step("goto", "/", "h1:text('Home')"),
            Step("fill", "textarea=Ada"),
            Step("click", "button:text('Greet')"),
            Step("reload", "", "h1:text('Home')"),
        ),
        "python app.py",
        python=("gradio==6.31.0",),
        varies=(r'"app_id":\d+', r"session_hash=\w+"),
        variables={"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"},
    ),
    App(
        "jupyterlab",
        (
            Step("goto", "/lab/tree/notebook.ipynb", ".jp-Notebook h1:text('Home')"),
            Step("goto", "/lab/tree/other.ipynb", ".jp-Notebook h1:text('Other')"),
            Step("reload", "", ".jp-Notebook h1:text('Other')"),
        ),
        "jupyter lab --no-browser --ip=127.0.0.1 --port={port} --allow-root --ServerApp.token= --ServerApp.password= "
        "--ServerApp.root_dir=. --LabApp.news_url= --FileCheckpoints.checkpoint_dir={data}",
        python=("jupyterlab==4.6.6",),
        looks_at=".jp-Notebook",
        varies=(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", r"_xsrf=[^\"&]*", r"[?&]\d{13}\b"),
        ready="/api",
    ),
    App(
        "mediawiki",
        (
            Step("goto", "/index.php/Main_Page", "#mw-content-text a:text-is('Hazel')"),
            Step("click", "#mw-content-text a:text-is('Hazel')", "#firstHeading:has-text('Hazel')"),
            Step("click", "#mw-content-text a:text-is('its uses')", "#Uses"),
            Step("click", "#mw-content-text a:text-is('Holly')", "#firstHeading:has-text('Holly')"),
            Step("back", "", "#firstHeading:has-text('Hazel')"),
            Step("forward", "", "#firstHeading:has-text('Holly')"),
            Step("click", "#ca-history a", "#firstHeading:has-text('Revision history')"),
            Step("click", "#ca-nstab-main a", "#firstHeading:has-text('Holly')"),
            Step("click", "#mw-normal-catlinks a:text-is('Trees')", "#firstHeading:has-text('Category')"),
            Step("fill", "#searchInput=Spindle"),
            Step("press", "Enter", "#firstHeading:has-text('Spindle')"),
            Step("click", "#pt-login a", "#wpName1"),
            Step("fill", "#wpName1=Admin"),
            Step("fill", "#wpPassword1=hedges-and-lanes"),
            Step("click", "#wpLoginAttempt", "#pt-userpage a"),
            Step("click", "#ca-edit a", "#wpTextbox1"),
            Step("fill", "#wpSummary=A word"),
            Step("fill", "#wpTextbox1='Spindle' has pink fruit. See [[Hazel]]."),
            Step("click", "#wpPreview", "#wikiPreview :text('pink fruit')"),
            Step("click", "#wpSave", "#mw-content-text :text('pink fruit')"),
            Step("reload", "", "#firstHeading:has-text('Spindle')"),
            Step("click", "#t-whatlinkshere a", "#firstHeading:has-text('Pages that link')"),
            Step("click", "#pt-logout a", "#pt-login a"),
        ),
        "python3 serve.py {port}",
        build=("python3 make.py",),
        debian=("/usr/share/mediawiki/index.php", "/usr/bin/php"),
        ready="/index.php/Main_Page",
        # Its loader asks for scripts in lots that depend on the moment, and they change elements when they arrive.
        looks_at="body",
        varies=(r"/load\.php\?\S*", r"\d\d:\d\d(?:, \d+ \w+ 2\d\d\d)?(?: \(UTC\))?", r"[?&]version=\w+"),
        quiet=0.6,
    ),
    App(
        "wordpress",
        (
            Step("goto", "/", "a:text-is('Hedge 14')"),
            Step("click", "a:text-is('Hedge 13')", "h1:text('Hedge 13')"),
            Step("click", ".entry-content a:text-is('the next one')", "h1:text('Hedge 14')"),
            Step("back", "", "h1:text('Hedge 13')"),
            Step("forward", "", "h1:text('Hedge 14')"),
            Step("goto", "/", "a:text-is('Hedge 14')"),
            Step("click", ".wp-block-query-pagination-next", "a:text-is('Hedge 9')"),
            Step("click", "a:text-is('Hedge 9')", "h1:text('Hedge 9')"),
            Step("fill", "#comment=What a hedge"),
            Step("fill", "#author=Hazel"),
            Step("fill", "#email=hazel@example.org"),
            Step("click", "#submit", ".wp-block-comment-content :text('What a hedge')"),
            Step("reload", "", ".wp-block-comment-content :text('What a hedge')"),
            Step("goto", "/?s=hedge+7", "a:text-is('Hedge 7')"),
            Step("click", "a:text-is('Hedge 7')", "h1:text('Hedge 7')"),
            Step("goto", "/wp-login.php", "#user_login"),
            Step("fill", "#user_login=admin"),
            Step("fill", "#user_pass=hedges-and-lanes"),
            Step("click", "#wp-submit", "h1:text('Dashboard')"),
            Step("click", "#menu-posts > a", "a.row-title:text('Hedge 14')"),
            Step("click", "#menu-comments > a", ":text('What a hedge')"),
            Step("hover", "#wp-admin-bar-my-account", "#wp-admin-bar-logout a"),
            Step("click", "#wp-admin-bar-logout a", "#user_login"),
        ),
        "python3 serve.py {port}",
        build=("python3 make.py",),
        debian=(
            "/usr/share/wordpress/wp-load.php", "/usr/share/wordpress/wp-content/themes/twentytwentythree",
            "/usr/sbin/mariadbd", "/usr/bin/php",
        ),
        varies=(
            r"_?(?:wp)?nonce\w*(?:=|\"?:\"|\" value=\")[0-9a-f]{10}",
            r"2\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d[+Z:\d]*|\d\d?:\d\d (?:a|p)m|\b1[78]\d{8}\b",
            # The pointer rests in the corner where this menu is.
            r"\bmenupop(?: hover)?\b|2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d",
            # A script that is inserted before the first one, and ours may be that.
            r"(?s)(?<=<head>).{0,300}?<title>Log In.*?(?=<script>if\()|[?&]\d{13}\b",
            r"[?&]unapproved=\d+|moderation-hash=[0-9a-f]+|[0-9a-f]{10}(?=\")",
        ),
        quiet=0.5,
    ),
)  # fmt: skip
