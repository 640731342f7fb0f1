"""The page in headless Chromium: a chat that streams, is stopped, thinks and fails; the dashboard; on a desk and on a phone."""
import os
import pathlib
import shutil

import pytest
import requests

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="the Debian packages chromium and chromium-driver are not installed")
SIZES = {"desk": (1280, 800), "phone": (390, 844)}


def browse(tmp_path, size):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                 f"--user-data-dir={tmp_path}/profile"):
        options.add_argument(word)
    if size == "phone":
        options.add_experimental_option("mobileEmulation", {
            "deviceMetrics": {"width": 390, "height": 844, "pixelRatio": 2, "touch": True}})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    driver.set_window_size(*SIZES[size])
    return driver


@pytest.fixture(params=list(SIZES))
def browser(request, tmp_path):
    driver = browse(tmp_path, request.param)
    driver.size = request.param
    yield driver
    errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    driver.quit()
    assert errors == [] or getattr(driver, "may_fail", False)


def picture(driver, name):
    """Kept where somebody wants to look at it."""
    if folder := os.environ.get("COTERIE_PICTURES"):
        pathlib.Path(folder).mkdir(exist_ok=True)
        driver.save_screenshot(f"{folder}/{name}-{driver.size}.png")


def wait(driver, condition, seconds=60):
    return WebDriverWait(driver, seconds, poll_frequency=0.05).until(lambda _: condition())


def all_of(driver, selector):
    return driver.find_elements(By.CSS_SELECTOR, selector)


def one(driver, selector):
    return driver.find_element(By.CSS_SELECTOR, selector)


def choose(driver, name):
    wait(driver, lambda: len(all_of(driver, "#models option")) > 1)
    Select(one(driver, "#models")).select_by_visible_text(name)


def say(driver, text):
    box = one(driver, "#text")
    box.send_keys(text)
    box.send_keys(Keys.ENTER)


def fits(driver):
    return driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")


SHORTER = """const real = window.fetch;
window.fetch = (path, o) => real(path, path === 'api/chat'
  ? {...o, body: JSON.stringify({...JSON.parse(o.body), options: {num_predict: 30}})} : o)"""
ENDLESS = """const real = window.fetch;
window.fetch = (path, o) => path !== 'api/chat' ? real(path, o) : Promise.resolve(new Response(new ReadableStream({
  start(c) {
    const timer = setInterval(() => c.enqueue(new TextEncoder().encode('{"message": {"content": "word "}}\\n')), 10);
    o.signal.addEventListener('abort', () => { clearInterval(timer); c.error(new DOMException('', 'AbortError')); });
  }})))"""


def test_chat(browser, other):
    browser.get(other.url)
    choose(browser, "long:latest")
    browser.execute_script(SHORTER)  # answers of random weights may be long
    assert not one(browser, "#think-box").is_displayed()
    say(browser, "Hello")
    wait(browser, lambda: "tokens" in one(browser, ".message.assistant small").text)
    say(browser, "And again")
    wait(browser, lambda: len(all_of(browser, ".message.assistant small")) == 2)
    assert [m.text for m in all_of(browser, ".message.user")] == ["Hello", "And again"]
    assert fits(browser)
    picture(browser, "chat")
    one(browser, "#clear").click()
    assert not all_of(browser, ".message")


def test_stop(browser, other):
    browser.get(other.url)
    choose(browser, "thinker:latest")
    assert one(browser, "#think-box").is_displayed()
    browser.execute_script(ENDLESS)  # the tiny models are too fast to be stopped
    say(browser, "Go on for long")
    wait(browser, lambda: len(one(browser, ".message.assistant").text) > 20)
    assert one(browser, "#send").text == "Stop"
    one(browser, "#send").click()
    wait(browser, lambda: one(browser, ".message.assistant small").text == "stopped")
    assert one(browser, "#send").text == "Send"


ANSWER = """# Plan

Some **bold**, *slanted* and `code` text, <b>not bold</b>, and a [link](https://example.org/a).

1. First
   - nested *one*
   - nested two
2. Second

> Quoted words

| Name | Size |
|------|-----:|
| a | 1 |
| b | 2 |

```python
def f(x):
    return "<script>alert(1)</script>" * 3  # a line that is long enough to need its own scroll bar on a phone
```

The end."""


def test_thinking_markdown_and_errors(browser, other):
    browser.may_fail = True  # the refused request is one of the browser's errors
    browser.get(other.url)
    choose(browser, "thinker:latest")
    lines = [{"message": {"content": "", "thinking": "Let me\nsee."}}]
    lines += [{"message": {"content": ANSWER[i:i + 7]}} for i in range(0, len(ANSWER), 7)]
    lines += [{"message": {"content": ""}, "done": True, "eval_count": 9, "eval_duration": 1e9, "done_reason": "length"}]
    browser.execute_script("""
        window.asked = [];
        window.fetch = async (path, o) => {
          window.asked.push(JSON.parse(o.body));
          if (window.asked.length === 2) return new Response('{"error":"no such thing"}', {status: 500});
          return new Response(arguments[0].map((l) => JSON.stringify(l) + '\\n').join(''));
        };""".replace("arguments[0]", "given").replace("window.asked = [];", "window.asked = []; const given = arguments[0];"), lines)
    say(browser, "Plan it")
    wait(browser, lambda: all_of(browser, ".message.assistant small"))
    box = one(browser, ".message.assistant")
    fold = one(browser, ".message.assistant details")
    assert fold.get_attribute("open") is None and fold.find_element(By.TAG_NAME, "summary").text == "Thoughts"
    assert "Let me" not in box.text
    count = lambda selector: len(box.find_elements(By.CSS_SELECTOR, selector))
    assert count("h3") == 1 and count("strong") == 1 and count("ol > li") == 2 and count("ol ul li") == 2
    assert count("table td") == 4 and count("blockquote") == 1 and count("pre code") == 1 and count("script") == 0 and count("b") == 0
    assert box.find_element(By.TAG_NAME, "a").get_attribute("href") == "https://example.org/a"
    assert "cut at its limit" in box.find_element(By.TAG_NAME, "small").text
    assert fits(browser)
    picture(browser, "markdown")
    fold.find_element(By.TAG_NAME, "summary").click()
    assert "Let me\nsee." in box.text
    picture(browser, "thoughts")
    one(browser, "#think").click()
    say(browser, "Fail")
    wait(browser, lambda: all_of(browser, ".message.error"))
    assert one(browser, ".message.error").text == "no such thing"
    picture(browser, "error")
    say(browser, "Go on")
    wait(browser, lambda: len(browser.execute_script("return window.asked")) == 3)
    asked = browser.execute_script("return window.asked")
    assert asked[0]["think"] is True and asked[1]["think"] is False
    assert [m["content"] for m in asked[2]["messages"]] == ["Plan it", ANSWER, "Go on"]  # what failed is forgotten


def test_dashboard(browser, start, folder, tmp_path):
    monitor = tmp_path / "class/hwmon/hwmon0"
    monitor.mkdir(parents=True)
    (monitor / "name").write_text("coretemp\n")
    (monitor / "temp1_input").write_text("93000\n")
    server = start("--models-dir", str(folder), "--sensors", str(tmp_path))
    browser.get(server.url)
    one(browser, "#board-switch").click()
    wait(browser, lambda: "No model is loaded" in one(browser, "#board").text)
    requests.post(server.url + "/api/chat", json={"model": "thinker", "stream": False, "options": {"num_predict": 20},
                                                  "messages": [{"role": "user", "content": "Hello there"}]})
    wait(browser, lambda: "thinker:latest" in one(browser, "#board").text)
    text = one(browser, "#board").text
    for word in ("planned", "free", "93 °C", "warm", "tokens a second", "waiting", "pages"):
        assert word in text, text
    assert fits(browser)
    picture(browser, "dashboard")
    browser.execute_script("document.querySelector('#board h3 button').click()")
    wait(browser, lambda: "No model is loaded" in one(browser, "#board").text)
    server.end()


def test_without_models(browser, start, tmp_path):
    (tmp_path / "empty").mkdir()
    server = start("--models-dir", str(tmp_path / "empty"), HOME=str(tmp_path))
    browser.get(server.url)
    wait(browser, lambda: "no model here yet" in (one(browser, "#chat").get_attribute("data-hint") or ""))
    assert not one(browser, "#send").is_enabled()
    picture(browser, "empty")
    server.end()


def test_key(browser, start, folder):
    browser.may_fail = True
    server = start("--models-dir", str(folder), COTERIE_API_KEY="secret")
    browser.get(server.url)
    alert = wait(browser, lambda: browser.switch_to.alert)
    alert.send_keys("secret")
    alert.accept()
    wait(browser, lambda: len(all_of(browser, "#models option")) > 1)
    server.end()
