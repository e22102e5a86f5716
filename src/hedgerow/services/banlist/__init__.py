"""
The ban-list client and its server, for a site that must not wait for a network call.

At the site: `client`, its lists in memory (`local_lists`), the threads that update them and send visits
(`server_link`), middleware and sidecar (`middleware`), and files for other servers (`list_files`). At `hedgerow serve`:
the changes (`change_feed`) and the HTTP endpoint (`endpoint`). Both sides share `messages`. The client never judges: it
does what lists and blocks say, and the server decides on the visits that it receives.
Tests: `tests/services/banlist/`.
"""
