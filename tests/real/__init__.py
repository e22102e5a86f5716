"""
Real parts: nginx, `hedgerow protect` as a process, crawlers, a browser.

All traffic stays on 127.0.0.0/8 and is bounded in count and time. Different clients have different addresses,
127.0.0.x.
"""
