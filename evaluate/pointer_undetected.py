"""Click through the pages at SITE by undetected-chromedriver: HOW is "click" or "chains". See pointer_drivers.py."""

import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import undetected_chromedriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By


def main() -> None:
    options = undetected_chromedriver.ChromeOptions()
    for argument in ("--no-sandbox", "--disable-gpu", "--headless=new", "--window-size=1000,800"):
        options.add_argument(argument)
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        # It changes the program that it is given.
        own = Path(shutil.copy(os.environ["CHROMEDRIVER"], folder))
        driver = undetected_chromedriver.Chrome(
            options=options, driver_executable_path=str(own), browser_executable_path="/usr/bin/chromium"
        )
        try:
            driver.get(os.environ["SITE"])
            for _ in range(int(os.environ["CLICKS"])):
                link = random.choice(driver.find_elements(By.TAG_NAME, "a"))
                if os.environ["HOW"] == "chains":
                    ActionChains(driver).move_to_element(link).pause(0.1).click().perform()
                else:
                    link.click()
                time.sleep(0.3)
            driver.get("about:blank")
            time.sleep(0.3)
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
