<?php
// A page cache, where the cache plugins of WordPress put theirs: whole pages for visitors who are not logged in. A comment
// empties it.
if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    array_map('unlink', glob(getenv('DATA') . '/cache-*'));
}
if ($_SERVER['REQUEST_METHOD'] === 'GET' && !preg_grep('/^(wordpress_|comment_author)/', array_keys($_COOKIE)) && strpos($_SERVER['REQUEST_URI'], '/wp-') !== 0) {
    $file = getenv('DATA') . '/cache-' . sha1($_SERVER['HTTP_HOST'] . $_SERVER['REQUEST_URI']);
    if (is_file($file)) {
        header('Content-Type: text/html; charset=UTF-8');
        header('X-Page-Cache: hit');
        readfile($file);
        exit;
    }
    ob_start(function ($page) use ($file) {
        if (http_response_code() === 200 && strpos($page, '</html>') !== false) {
            file_put_contents($file, $page, LOCK_EX);
        }
        return $page;
    });
}
