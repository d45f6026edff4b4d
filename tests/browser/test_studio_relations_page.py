"""What a trained model adds to the storyboard page: relations to ask for, their probabilities, attention."""

import json
from urllib.parse import urlsplit

import pytest
from browsing import answered

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow


def test_ask_for_a_relation_and_see_why(storyboard, model_studio: str) -> None:
    page = storyboard("She hammers the boat together.\n\nShe sails away over the water.", at=model_studio)
    known = answered(page, f"{model_studio}/api/library")
    options = page.locator("#relation option").all_inner_texts()
    assert len(options) == 1 + len(known["relations"]) > 2
    asked = known["relations"][0]
    assert known["wording"]["relations"][asked].rstrip(".")[1:] in options[1]
    with page.expect_request("**/edits") as request, page.expect_response("**/edits"):
        page.select_option("#relation", asked)
    assert request.value.post_data_json["edit"] == {"kind": "relation", "step": 0, "relation": asked}
    page.wait_for_selector("#saving[data-state=saved]")
    # The answer may be a job, where it takes longer than a second.
    told = answered(page, f"{model_studio}/api{urlsplit(page.url).path}")
    assert told["steps"][0]["relation"] == asked
    page.reload()
    page.wait_for_selector("#panel .offer")
    expect(page.locator("#relation")).to_have_value(asked)

    page.click("#tab-reasons")
    expect(page.locator("#page-reasons")).not_to_contain_text("Probability")  # none was fitted for a run
    expect(page.locator(".fitting:visible")).to_have_count(0)
    step = told["board"]["steps"][0]
    rows = page.locator("table.relations tr").all_inner_texts()
    assert len(rows) == len(step["relations"])
    likeliest = max(step["relations"], key=step["relations"].get)
    assert known["wording"]["relations"][likeliest] in rows[0]
    assert "%" not in " ".join(rows)
    assert rows[0].split()[-1] in ("likely", "unlikely")
    page.locator("#page-reasons summary", has_text="Numbers").click()
    share = f"{100 * step['relations'][likeliest]:.0f} %"
    expect(page.locator("table.shares tr").first).to_contain_text(share)
    shaded = page.locator(".telling-text p span").all_inner_texts()
    # The words of the published code end in an empty one: it has its share, but nothing of the text to shade.
    assert [word.lower() for word in shaded] == [word.lower() for word, _ in step["attention"] if word]
    expect(page.locator(".telling-text p")).to_have_text("She hammers the boat together.")
    page.click("#settings")
    expect(page.get_by_role("dialog").get_by_label("Allow the same picture twice")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("radio")).to_have_count(0)
    page.keyboard.press("Escape")
    assert json.dumps(page.locator(".looks li").all_inner_texts()).count("share") == 1
