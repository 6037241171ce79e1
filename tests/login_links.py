"""Follow a one-time login link as its page does."""

import httpx


def redeem(browser: httpx.Client, link: str) -> httpx.Response:
    """Open the page of a link and press its button."""
    address, _, token = link.partition("#")
    browser.get(address).raise_for_status()
    fields = {"token": token, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    return browser.post(address, data=fields)
