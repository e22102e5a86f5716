<?php
// What is no file is WordPress's to answer.
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$file = __DIR__ . '/site' . $path;
if ($path !== '/' && (is_file($file) || is_file("$file/index.php"))) {
    return false;
}
$_SERVER['SCRIPT_NAME'] = '/index.php';
require __DIR__ . '/site/index.php';
