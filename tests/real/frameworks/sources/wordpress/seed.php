<?php
$_SERVER += ['HTTP_HOST' => '127.0.0.1', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/wp-install', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
define('WP_INSTALLING', true);
require __DIR__ . '/site/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Hedges', 'admin', 'admin@example.org', true, '', 'hedges-and-lanes');
update_option('posts_per_page', 5);
update_option('comment_previously_approved', 0);
switch_theme('twentytwentythree');
foreach (range(1, 14) as $n) {
    wp_insert_post([
        'post_title' => "Hedge $n", 'post_status' => 'publish', 'post_author' => 1, 'post_date' => sprintf('2026-01-%02d 08:00:00', $n),
        'post_content' => "<!-- wp:paragraph --><p>All about hedge $n. See <a href=\"/?p=" . ($n + 4) . "\">the next one</a>.</p><!-- /wp:paragraph -->",
    ]);
}
