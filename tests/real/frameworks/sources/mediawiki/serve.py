"""Serves a copy of the wiki at a port, as whichever host it is asked for."""

import os
import shutil
import sys
from pathlib import Path

HERE, DATA = Path.cwd(), Path(os.environ["DATA"])
shutil.copytree(HERE / "seed", DATA / "seed")
settings = (HERE / "LocalSettings.php").read_text().replace(str(HERE / "seed"), str(DATA / "seed"))
settings += """
// Or links would have no port behind a proxy.
$wgAssumeProxiesUseDefaultProtocolPorts = false;
$wgServer = WebRequest::detectServer(false);
$wgMainCacheType = CACHE_DB;
$wgJobRunRate = 0;
$wgEnableUploads = false;
"""
(DATA / "LocalSettings.php").write_text(settings)
os.environ |= {"MW_CONFIG_FILE": str(DATA / "LocalSettings.php"), "PHP_CLI_SERVER_WORKERS": "4"}
os.execvp("php", ["php", "-d", "opcache.enable_cli=1", "-S", f"127.0.0.1:{sys.argv[1]}", "-t", "/usr/share/mediawiki"])
