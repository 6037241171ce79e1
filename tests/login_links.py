"""Follow a one-time login link like its page."""

import httpx


def redeem(browser: httpx.Client, link: str) -> httpx.Response:
    """Open the page of a link and submit its form."""
    address, _, token = link.partition("#")
    browser.get(address).raise_for_status()
    fields = {"token": token, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    return browser.post(address, data=fields)
