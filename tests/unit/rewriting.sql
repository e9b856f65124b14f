-- Queries that are easy to rewrite wrongly. `-- == ` begins a group; `-- empty` marks a query without rows here;
-- `-- alone: WHY` one that is left as it is, or a block of which is. Tables: see test_qoop_rewriting.py.

-- == names
WITH a AS (SELECT id, x + 1 AS x FROM a) SELECT a.id, a.x, b.x FROM a JOIN b ON a.id = b.id;
WITH p AS (SELECT x FROM t), t AS (SELECT x + 10 AS x FROM b) SELECT p.x, t.x FROM p, t;
WITH v AS (WITH v AS (SELECT id FROM a WHERE x = 1) SELECT v.id, b.x FROM v JOIN b ON v.id = b.id) SELECT v.id, c.w FROM v JOIN c ON v.id = c.id;
WITH b AS (SELECT id FROM c) SELECT b.id, (SELECT max(q.n) FROM (WITH b AS (SELECT x AS n FROM t) SELECT n FROM b) q) FROM b JOIN a ON a.id = b.id JOIN c ON c.id = a.id;
SELECT q.id FROM (WITH b AS (SELECT id FROM c) SELECT b.id FROM b JOIN a ON a.id = b.id) q JOIN b ON q.id = b.id WHERE b.x = 1;
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE b.x IN (WITH a AS (SELECT x FROM t) SELECT x FROM a);
WITH V AS (SELECT id, x FROM a) SELECT v.id, b.x FROM v JOIN b ON V.id = b.id;
WITH core AS (SELECT id, count(*) AS n FROM a GROUP BY id) SELECT core.n, b.x, c.w FROM core JOIN b ON core.id = b.id JOIN c ON c.id = b.id;
WITH core AS (SELECT id, count(*) AS n FROM a GROUP BY id) SELECT core.n, b.x, c.w FROM b JOIN c ON c.id = b.id LEFT JOIN core ON core.id = b.id;
WITH result AS (SELECT id, count(*) AS n FROM a GROUP BY id) SELECT r.n, b.x FROM result r JOIN b ON r.id = b.id JOIN result s ON s.id = b.id;
SELECT (SELECT max(core.x) FROM (SELECT x FROM t) core), b.x, c.w FROM b JOIN c ON c.id = b.id;
WITH s AS (SELECT a.id, a.x, b.z FROM a, b, c WHERE a.id = b.id AND b.id = c.id), s__3 AS (SELECT a.id + 100 AS id FROM a JOIN b ON a.id = b.id) SELECT s.id, s__3.id FROM s, s__3, s s2, s__3 s4 WHERE s.id = s2.id AND s__3.id = s4.id;
WITH `my cte` AS (SELECT id, x FROM a) SELECT `my cte`.id, b.x FROM `my cte` JOIN b ON `my cte`.id = b.id;
WITH `u.v` AS (SELECT id, x FROM a) SELECT `u.v`.id, b.x FROM `u.v` JOIN b ON `u.v`.id = b.id;
SELECT d.id, b.x FROM (SELECT id, x FROM a) AS `my alias` JOIN b ON `my alias`.id = b.id CROSS JOIN (SELECT max(id) AS id FROM c) d;
SELECT d.id, b.x FROM (SELECT id, x FROM a) AS `u.v` JOIN b ON `u.v`.id = b.id CROSS JOIN (SELECT max(id) AS id FROM c) d;
SELECT A.ID, B.`X` AS `MixedCase` FROM A JOIN B ON A.Id = b.iD JOIN c ON c.id = b.id;
SELECT b.id FROM a AS b JOIN b AS a ON a.id = b.id WHERE a.z = 'p' AND b.y = 'p';
SELECT a.id FROM a b, b a, c WHERE a.id = b.id AND c.id = a.id AND b.d IS NOT NULL;
SELECT x.id FROM a x JOIN b ON x.id = b.id WHERE x.x IN (SELECT x.w FROM c x WHERE x.id = b.id);
SELECT `a`.`id` AS `select`, b.x AS `from` FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id ORDER BY `select` NULLS FIRST, `from` NULLS FIRST LIMIT 2;
SELECT main.a.id, b.x FROM main.a JOIN main.b ON main.a.id = main.b.id;
SELECT p.id, b.x FROM main.a p JOIN b ON p.id = b.id JOIN main.b q ON q.id = p.id;
SELECT a.id, p.x FROM a JOIN `b` AS q ON a.id = q.id JOIN b AS p ON p.id = q.id JOIN `B` AS o ON o.id = p.id;
SELECT to_json(struct(a.id AS orderId, b.X, c.id)) FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id;
SELECT a.id, a.id, b.id FROM a JOIN b ON a.id = b.id;
SELECT b.x AS b__x, a.id FROM a, b WHERE a.id = b.id ORDER BY b.x;
-- alone: two columns would be named 'b__x'
SELECT a.id AS b__x, b.id AS i FROM a, b WHERE a.id = b.id ORDER BY b.x LIMIT 2;
-- alone: two columns would be named 'a__b__c'
SELECT a.id, a__b.c FROM (SELECT id, x AS b__c FROM a) a, (SELECT id, x AS c FROM b) a__b WHERE a.id = a__b.id AND a.b__c = a__b.c;
-- alone: two columns would be named 'g__id'
SELECT g.id FROM a g JOIN b ON g.id = b.id WHERE g.id IN (SELECT x FROM underscored WHERE underscored.x = g.id);
-- alone: one of the sources in FROM
SELECT q.y, b.z FROM a AS q(x, id, y, d), b WHERE q.id = b.id;
-- alone: one of the sources in FROM
WITH v AS (SELECT id, x FROM a) SELECT q.x, q.id, b.z FROM v AS q(x, id) JOIN b ON q.id = b.id WHERE q.id = 2;
SELECT d.q, b.x FROM (SELECT id, x FROM a) AS d(q, r) JOIN b ON d.q = b.id WHERE d.r = 1;
WITH d(q, r) AS (SELECT id, x FROM a) SELECT d.q, b.x FROM d JOIN b ON d.q = b.id WHERE d.r = 1;
SELECT u.k, b.x FROM (SELECT a.id, a.x FROM a JOIN b ON a.id = b.id UNION ALL SELECT c.id, b.x FROM c JOIN b ON c.id = b.id) u(k, l) JOIN b ON u.k = b.id WHERE u.l = 1;
WITH u(k, l) AS (SELECT a.id, a.x FROM a JOIN b ON a.id = b.id UNION ALL SELECT c.id, b.x FROM c JOIN b ON c.id = b.id) SELECT u.k, b.x FROM u JOIN b ON u.k = b.id WHERE u.l = 1;

-- == joins in parentheses
SELECT a.y, b.z, c.w FROM (a JOIN b ON a.id = b.id) JOIN c ON c.id = a.id;
SELECT a.y, b.z, c.w FROM a JOIN (b JOIN c ON b.id = c.id) ON a.id = b.id;
SELECT a.y, b.z, c.w FROM a JOIN b JOIN c ON b.id = c.id ON a.id = b.id;

-- == joins as written
-- empty
SELECT a.y, b.z FROM a JOIN b ON 1 = 0;
-- empty
-- alone: a filter of the query is always false
SELECT a.y, b.z FROM a JOIN b ON FALSE;
SELECT a.y, b.z FROM a JOIN b ON TRUE;
-- empty
SELECT a.y, b.z FROM a JOIN b ON a.id = b.id AND EXISTS (SELECT 1 FROM e);
-- empty
SELECT a.y, b.z FROM a JOIN b ON a.id = b.id AND (SELECT max(x) FROM t) > 5;
SELECT a.y, b.z FROM a JOIN b ON a.id = b.id AND (SELECT max(x) FROM t) > 2;
SELECT a.id FROM a JOIN b ON a.id = b.id AND b.x + a.x = 3 AND 2 > 1 JOIN c ON c.id = b.id AND NULL IS NULL;
SELECT a.y, b.z FROM a JOIN b USING (id) JOIN c USING (id);
SELECT id, a.y, b.z FROM a LEFT JOIN b USING (id) JOIN c USING (id);
SELECT id, count(*) FROM a JOIN b USING (id) JOIN c USING (id) GROUP BY id;
SELECT count(*) FROM a NATURAL JOIN b;
SELECT a.id, b.id, c.id FROM a JOIN b ON a.id = b.id, c WHERE c.id = a.x;
SELECT a.id, b.id, c.id FROM a, b, c;
SELECT 1 FROM a, b;
SELECT a.id FROM a, b, c WHERE a.id < b.id AND b.id < c.id;
SELECT a.id FROM a, b, c WHERE a.id <=> b.id AND b.x <=> c.id;
SELECT a.id FROM a CROSS JOIN b CROSS JOIN c WHERE a.id = b.id AND a.id + 1 = c.id;
SELECT a1.id, a2.id, a3.id FROM a a1, a a2, a a3 WHERE a1.id = a2.x AND a2.id = a3.x AND a1.y = 'p';
SELECT t.x FROM t JOIN t AS u ON t.x = u.x JOIN t AS v ON v.x = u.x;
-- empty
SELECT a.id FROM a JOIN e ON a.id = e.id JOIN b ON b.id = a.id;
SELECT count(*), max(b.x) FROM a JOIN e ON a.id = e.id JOIN b ON b.id = a.id;

-- == outer joins
-- alone: two tables of one SELECT have the alias 'o'
SELECT a.id, o.x FROM a LEFT SEMI JOIN c o ON o.id = a.id, b o WHERE o.id = a.id;
SELECT a.id, b.x FROM a LEFT JOIN b ON a.id = b.id JOIN c ON c.id = a.id WHERE b.x IS NULL;
SELECT a.id, b.x FROM a LEFT JOIN b ON a.id = b.id AND b.x = 1 JOIN c ON c.id = b.id;
-- alone: RIGHT JOIN cannot be reordered
SELECT a.id, b.x FROM a JOIN c ON a.id = c.id RIGHT JOIN b ON a.id = b.id;
-- alone: FULL JOIN cannot be reordered
SELECT a.id, b.x FROM a JOIN c ON a.id = c.id FULL JOIN b ON a.id = b.id;
SELECT a.id FROM a JOIN c ON a.id = c.id LEFT SEMI JOIN b ON a.id = b.id;
SELECT a.id FROM a JOIN c ON a.id = c.id LEFT ANTI JOIN b ON a.x = b.x;
SELECT a.id FROM a LEFT ANTI JOIN b ON a.x = b.x JOIN c ON a.id = c.id;
-- empty
SELECT a.id FROM a LEFT JOIN b ON a.id = b.id JOIN c ON c.id = a.id AND 1 = 0;
SELECT a.id, b.x FROM c JOIN a ON c.id = a.id LEFT JOIN b ON a.id = b.id AND 1 = 0;
SELECT a.id, b.x FROM c JOIN a ON c.id = a.id LEFT JOIN b ON a.id = b.id AND c.w = 1 LEFT JOIN e ON e.id = b.id;
SELECT a.id, b.x, c.w, e.x AS ex FROM a LEFT JOIN b ON a.id = b.id LEFT JOIN c ON a.id = c.id LEFT JOIN e ON e.id = b.id;
SELECT a.id, b.x, c.w FROM a LEFT JOIN b ON b.id = a.id AND b.x > a.x LEFT JOIN c ON c.id = b.id JOIN t ON t.x = a.x;
SELECT a.id, b.x, c.w FROM t, a LEFT JOIN b ON b.id = a.id LEFT JOIN c ON c.id = b.id AND c.w < 4 WHERE a.id < 3;
SELECT a.id, count(b.x) AS n, max(c.w) AS w FROM a LEFT JOIN b ON b.id = a.id LEFT JOIN c ON c.id = a.id GROUP BY a.id;
SELECT a.id, b.x FROM a LEFT JOIN b ON b.id = a.id JOIN c ON c.id = a.id LEFT JOIN t ON t.x = b.x AND t.x = b.x;
SELECT a.id, s.m FROM c JOIN a ON c.id = a.id LEFT JOIN (SELECT id, max(x) AS m FROM b GROUP BY id) s ON s.id = a.id AND s.m = 2;
SELECT a.id, s.m FROM c JOIN a ON c.id = a.id LEFT JOIN (SELECT id, max(x) AS m FROM b GROUP BY id) s ON s.id = a.id WHERE coalesce(s.m, 1) = 1;
SELECT d.id FROM (SELECT a.id, a.x FROM a JOIN b ON a.id = b.id) d LEFT JOIN c ON c.id = d.id AND c.w > 2 WHERE d.x = 1 AND c.w IS NULL;
SELECT d.id, c.w FROM c LEFT JOIN (SELECT a.id, a.x FROM a JOIN b ON a.id = b.id) d ON c.id = d.id WHERE d.x = 1 OR d.x IS NULL;
SELECT s.id, s.bx FROM (SELECT a.id, b.x AS bx FROM a LEFT JOIN b ON a.id = b.id) s JOIN c ON c.id = s.id WHERE s.bx IS NULL;
SELECT s.id, s.bx FROM (SELECT a.id, b.x AS bx FROM a FULL JOIN b ON a.id = b.id) s JOIN c ON c.id = s.id WHERE s.bx = 1;
SELECT s.m, b.x FROM (SELECT max(x) AS m FROM e) s LEFT JOIN b ON s.m = b.x JOIN c ON 1 = 1;
SELECT a.id FROM a JOIN b ON a.id = b.id LEFT JOIN c ON c.id = a.id AND c.id IN (SELECT x FROM t) WHERE c.id IS NULL OR c.w > 1;

-- == conditions
SELECT a.id FROM a, b, c WHERE a.id = b.id AND a.x + b.x + c.w > 3;
SELECT a.id, b.id FROM a, b, c WHERE a.id = b.id AND a.id = c.id AND a.x = c.id AND b.x = c.id;
SELECT a.id FROM a, b WHERE a.id = b.id AND a.id = a.x;
SELECT a.id, b.id FROM a, b, c WHERE (a.id = b.id AND a.x = 1 AND c.y = 'p') OR (a.id = b.id AND a.x = 2 AND c.y = 'q');
SELECT a.id, b.id FROM a, b WHERE (a.id = b.id AND a.x = 1) OR (a.id = b.id);
SELECT a.id, b.id FROM a, b, c WHERE a.id = b.id AND b.id = c.id AND (a.x IS NULL OR b.x = 1);
SELECT a.id, b.id FROM a, b, c WHERE a.id = b.id AND b.id = c.id AND NOT (a.x = 1 AND b.x = 1);
SELECT a.id FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id WHERE a.id = 1 OR (a.id = 2 AND (b.x = 1 OR c.w = 2)) OR (a.id = 3 AND b.x = 3);
SELECT a.id FROM a, b, c WHERE a.id = b.id AND b.id = c.id AND ((a.x = 1 AND b.x = 1 AND c.w = 1) OR (a.x = 2 AND b.x = 1 AND c.w = 1) OR (a.x IS NULL AND b.x IS NULL));
SELECT a.id FROM a, b, c WHERE a.id = b.id AND b.id = c.id AND a.x IN (1, 2) AND b.x IN (2, 3) AND a.x = b.x;
SELECT a.id FROM a, b, c WHERE a.y = b.z AND b.z = c.y AND a.y IN ('p', 'q') AND c.y <> 'q';
SELECT a.id FROM a, c WHERE a.x = c.w AND c.w > 1.5;
SELECT a.id FROM a, b, c WHERE a.x = c.w AND c.w = b.amt;
SELECT a.id FROM a JOIN b ON coalesce(a.x, 0) = coalesce(b.x, 0) JOIN c ON c.id = b.id;
SELECT a.id FROM a JOIN b ON a.id = b.id OR a.x = b.x JOIN c ON c.id = b.id;
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE coalesce(a.x, b.x, 0) = 1;
SELECT a.id FROM a, b WHERE a.id = 1 AND a.id = b.id AND b.x = a.x AND b.x = 1 AND NULL IS NULL;
-- empty
-- alone: a filter of the query is always false
SELECT a.id FROM a, b WHERE a.id = b.id AND NULL;
-- empty
SELECT a.id FROM a, b WHERE a.id = b.id AND 1 = 0;
SELECT max(a.id) FROM a, b WHERE a.id = b.id AND a.id = 99;
SELECT a.id FROM a, b, c WHERE (a.id, a.x) = (b.id, b.x) AND c.id = a.id;
SELECT a.id FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id WHERE a.id IS DISTINCT FROM b.x;
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE a.y LIKE 'p%' AND b.z LIKE '_';
SELECT a.id, a.d + INTERVAL 3 DAYS FROM a JOIN b ON a.id = b.id WHERE a.d BETWEEN DATE '2000-01-01' AND DATE '2000-01-01' + INTERVAL 30 DAYS;
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE b.amt BETWEEN 1 AND 3 AND b.amt > -1.5;
SELECT a.id FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id WHERE a.y IS NOT NULL AND NOT a.y = 'q' AND a.d >= '2000-01-01';

-- == subqueries
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE EXISTS (SELECT 1 FROM (SELECT * FROM c WHERE c.id = a.id) q WHERE q.w > 0);
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE EXISTS (SELECT 1 FROM c WHERE c.id = a.id AND c.y = b.z);
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE a.x IN (SELECT a.x FROM b a WHERE a.id > 0);
-- empty
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE a.x NOT IN (SELECT x FROM t);
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE a.x NOT IN (SELECT x FROM t WHERE x IS NOT NULL);
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE a.x + 3 = (SELECT max(c.id) FROM c WHERE c.y = a.y);
SELECT a.id, (SELECT max(w) FROM c WHERE c.id = b.id) FROM a JOIN b ON a.id = b.id;
SELECT a.id, (SELECT max(w) FROM c WHERE 1 = 0) AS n FROM a JOIN b ON a.id = b.id JOIN c ON c.id = a.id;
SELECT a.id FROM a JOIN b ON a.id = b.id AND a.x = 1 WHERE a.id > (SELECT avg(id) FROM c) - 10;
SELECT a.y, (SELECT count(*) FROM b WHERE b.id = a.id) n FROM a, c WHERE a.id = c.id AND (SELECT count(*) FROM b WHERE b.id = a.id) = 2;
SELECT a.id FROM a, b, c WHERE a.id = b.id AND b.id = c.id AND a.id IN (SELECT id FROM b WHERE b.x = a.x) AND c.w IN (1, 2, NULL);
SELECT a.id FROM a, b, c WHERE a.id = b.id AND b.id = c.id AND (a.id, b.x) IN (SELECT id, x FROM b);
SELECT a.id FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id WHERE EXISTS (SELECT 1 FROM e) OR a.id = 1;
-- alone: fewer than two tables
SELECT a.id FROM a WHERE a.id IN (SELECT id FROM b);

-- == blocks and the filters moved into them
SELECT h.k, b.x FROM (SELECT 2 AS k FROM a WHERE 1 = 0 HAVING TRUE) h JOIN b ON h.k = b.id WHERE h.k = 2;
-- empty
SELECT h.k, b.x FROM (SELECT 1 AS k FROM a HAVING TRUE) h JOIN b ON 1 = 1 WHERE h.k = 2;
-- empty
SELECT x1.n, c.w FROM (SELECT count(*) AS n, 5 AS m FROM b) x1, c WHERE x1.m = 6;
-- empty
SELECT x1.n, c.w FROM (SELECT count(*) AS n, 'a' AS m FROM e GROUP BY x) x1, c WHERE x1.m = 'a';
SELECT a.id, x1.m FROM a, (SELECT id, max(x) m FROM b GROUP BY id) x1, c WHERE a.id = x1.id AND x1.m = 2 AND c.id = a.id;
SELECT a.id, x1.m FROM a, (SELECT id, 5 AS m FROM b GROUP BY id) x1, c WHERE a.id = x1.id AND x1.m = 5 AND c.id = a.id;
SELECT s.id, s.n FROM (SELECT a.id, count(b.x) AS n FROM a LEFT JOIN b ON a.id = b.id GROUP BY a.id) s JOIN c ON c.id = s.id WHERE s.id = 1 AND s.n = 4;
SELECT g.y, g.n, b.x FROM (SELECT y, x, count(*) AS n FROM a GROUP BY ROLLUP (y, x)) g JOIN b ON g.x = b.x WHERE g.y = 'p';
SELECT g.y, g.n FROM (SELECT y, x, count(*) AS n FROM a GROUP BY CUBE (y, x)) g JOIN b ON g.n = b.x WHERE g.y IS NULL;
SELECT w.id, w.r, b.x FROM (SELECT id, x, row_number() OVER (ORDER BY id, x, y) AS r FROM a) w JOIN b ON w.id = b.id WHERE w.id = 2;
WITH l AS (SELECT id, x FROM a ORDER BY id NULLS FIRST, x LIMIT 4) SELECT l.id, b.x FROM l JOIN b ON l.id = b.id WHERE l.x = 2;
SELECT DISTINCT q.id FROM (SELECT DISTINCT a.id, b.x FROM a JOIN b ON a.id = b.id) q JOIN c ON c.id = q.id WHERE q.x = 1;
SELECT q.id FROM (SELECT id FROM a UNION SELECT id FROM b) q JOIN c ON c.id = q.id WHERE q.id = 1;
SELECT * FROM (SELECT * FROM (SELECT a.id, b.x FROM a JOIN b ON a.id = b.id) q1 WHERE q1.id = 1) q2 JOIN c ON q2.id = c.id WHERE q2.x = 1;
SELECT a.id, n.k FROM a JOIN b ON a.id = b.id JOIN (SELECT NULL AS k) n ON 1 = 1 JOIN c ON c.id = b.id WHERE n.k IS NULL;
SELECT a.id, n.k FROM a JOIN b ON a.id = b.id JOIN (SELECT 3 AS k) n ON n.k > a.id JOIN c ON c.id = b.id WHERE n.k = 3;
-- alone: one of the sources in FROM
SELECT a.id, v.k FROM a JOIN (VALUES (1, 'one'), (2, 'two')) AS v(id, k) ON a.id = v.id JOIN b ON b.id = a.id;

-- == blocks that are read twice
WITH v AS (SELECT a.id, a.x, b.z FROM a JOIN b ON a.id = b.id) SELECT v1.id, v2.z FROM v v1 JOIN v v2 ON v1.id = v2.id WHERE v1.x = 1 AND v2.x = 2;
WITH v AS (SELECT a.id, sum(b.x) AS s FROM a JOIN b ON a.id = b.id GROUP BY a.id) SELECT v1.id, v2.s FROM v v1 JOIN v v2 ON v1.s = v2.id WHERE v1.id = 4 AND v1.s IN (SELECT s FROM v);
WITH u AS (SELECT a.id, a.x FROM a JOIN b ON a.id = b.id UNION SELECT c.id, b.x FROM c JOIN b ON c.id = b.id) SELECT u1.id, u2.x FROM u u1, u u2 WHERE u1.id = u2.id AND u1.x = 1 AND u2.x IS NOT NULL;
WITH v AS (SELECT id, x FROM a) SELECT v.id FROM v JOIN b ON v.id = b.id WHERE v.x = 1 UNION ALL SELECT v.id FROM v JOIN c ON v.id = c.id WHERE v.x = 2;
WITH v AS (SELECT id, x FROM a), w AS (SELECT v.id, v.x, b.z FROM v JOIN b ON v.id = b.id) SELECT w.id FROM w JOIN c ON w.id = c.id WHERE w.x = 1 UNION ALL SELECT w.id FROM w JOIN e ON w.id = e.id UNION ALL SELECT v.id FROM v WHERE v.x = 2;

-- == set operations
WITH u AS (SELECT a.id, a.x FROM a JOIN b ON a.id = b.id EXCEPT SELECT c.id, b.x FROM c JOIN b ON c.id = b.id) SELECT u.id, c.w FROM u, c WHERE u.id = c.id AND u.x = 2;
WITH u AS (SELECT a.id, a.x FROM a JOIN b ON a.id = b.id INTERSECT SELECT c.id, b.x FROM c JOIN b ON c.id = b.id) SELECT u.id, c.w FROM u, c WHERE u.id = c.id AND u.x = 1;
WITH u AS ((SELECT a.id, a.x FROM a JOIN b ON a.id = b.id EXCEPT ALL SELECT c.id, b.x FROM c JOIN b ON c.id = b.id) UNION ALL SELECT a.x, b.x FROM a JOIN b ON a.id = b.x) SELECT u.id, c.w FROM u, c WHERE u.id = c.id AND u.x = 2;
SELECT d.id FROM (SELECT a.id, b.x FROM a JOIN b ON a.id = b.id UNION ALL SELECT 7, 8) d WHERE d.x = 8;
SELECT count(*) FROM (SELECT a.id FROM a JOIN b ON a.id = b.id UNION SELECT b.id FROM b JOIN c ON b.id = c.id) u;
SELECT u.k, u.n FROM (SELECT 'ab' AS k, a.id AS n FROM a JOIN b ON a.id = b.id UNION ALL SELECT 'cd' AS k, c.id FROM b JOIN c ON b.id = c.id) u JOIN t ON u.n = t.x WHERE u.k = 'ab' AND t.x = 1;
SELECT u.k FROM (SELECT a.y AS k, count(*) AS n FROM a JOIN b ON a.id = b.id GROUP BY a.y UNION ALL SELECT c.y, 1 FROM b JOIN c ON b.id = c.id) u JOIN t ON u.n = t.x WHERE u.k = 'p' AND u.n = 1;
(SELECT a.id FROM a JOIN b ON a.id = b.id) UNION ALL (SELECT b.id FROM b JOIN c ON b.id = c.id ORDER BY b.id NULLS FIRST LIMIT 1);
SELECT u.id FROM ((SELECT a.id FROM a JOIN b ON a.id = b.id ORDER BY a.id LIMIT 2) UNION ALL SELECT c.id FROM c JOIN b ON c.id = b.id) u JOIN t ON t.x = u.id WHERE u.id = 1;

SELECT u.k, t.x FROM (SELECT a.x AS k, b.x AS j FROM a JOIN b ON a.id = b.id UNION ALL SELECT c.w, c.id FROM b JOIN c ON b.id = c.id) u JOIN t ON t.x = u.j WHERE cast(u.k AS string) = '2.0';
SELECT u.k, t.x FROM (SELECT n.x AS k, b.x AS j FROM (SELECT id, 10 AS x FROM a) n JOIN b ON n.id = b.id UNION ALL SELECT a.y, c.id FROM a JOIN c ON a.id = c.id) u JOIN t ON t.x = u.j WHERE u.k < '5';

-- == around the joins
SELECT sum(a.x) FROM a, b WHERE a.id = b.id HAVING count(*) > 1;
-- empty
SELECT sum(a.x) FROM a, b WHERE a.id = b.id HAVING count(*) > 100;
SELECT a.y, b.z, count(*) FROM a JOIN b ON a.id = b.id GROUP BY GROUPING SETS ((a.y), (b.z), ());
SELECT a.y, b.z, count(*) FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id GROUP BY ROLLUP (a.y, b.z);
SELECT a.y, sum(b.x) AS x FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id GROUP BY ALL;
SELECT a.y, sum(b.x) AS x FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id GROUP BY 1 ORDER BY 2 NULLS FIRST, 1 NULLS FIRST LIMIT 2;
SELECT a.id, count(*) FILTER (WHERE b.x = 1) FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id GROUP BY a.id;
SELECT a.id, sum(b.x) OVER (PARTITION BY a.id) FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id;
SELECT a.id, sum(b.x) OVER w FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id WINDOW w AS (PARTITION BY a.y);
SELECT DISTINCT a.y FROM a JOIN b ON a.id = b.id ORDER BY a.y;
SELECT DISTINCT a.x FROM a JOIN b ON a.id = b.id ORDER BY a.x + 1;
SELECT a.x AS y, a.id, b.z FROM a JOIN b ON a.id = b.id ORDER BY a.y NULLS FIRST, y NULLS FIRST, a.id, b.z NULLS FIRST LIMIT 3;
SELECT a.y AS k, count(*) AS n FROM a JOIN b ON a.id = b.id GROUP BY a.y ORDER BY count(*) DESC, a.y LIMIT 1;
SELECT a.id, b.x, c.w FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id ORDER BY a.id NULLS LAST, b.x DESC NULLS FIRST, c.w LIMIT 3 OFFSET 1;
SELECT count(DISTINCT a.y), count(b.z) FROM a JOIN b ON a.id = b.id;
SELECT a.id, a.x + 1 AS x FROM a JOIN b ON a.id = b.id WHERE a.x > 1;
SELECT * FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id;
SELECT a.* FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id;
-- alone: uses a whole row (*) as a value
SELECT to_json(struct(a.*)) FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id;
SELECT struct(a.id, b.x) AS s FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id;
SELECT a.id, transform(array(1, 2), x -> x + 1) FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id;
SELECT a.id, CASE WHEN b.x = 1 THEN 'one' ELSE c.y END FROM a JOIN b ON a.id = b.id JOIN c ON c.id = a.id;

-- == columns that nothing reads
WITH j AS (SELECT a.*, b.z, b.amt FROM a JOIN b ON a.id = b.id) SELECT l.x, count(*) AS n FROM j l JOIN j r ON l.y = r.z GROUP BY l.x;
WITH j AS (SELECT a.*, b.x AS x, b.z FROM a JOIN b ON a.id = b.id) SELECT j.y, j.z FROM j JOIN c ON j.id = c.id;
WITH j AS (SELECT a.*, b.z FROM a JOIN b ON a.id = b.id) SELECT count(*) AS n FROM j JOIN c ON true;
WITH j AS (SELECT a.*, b.z FROM a JOIN b ON a.id = b.id) SELECT c.w FROM c WHERE EXISTS (SELECT * FROM j WHERE j.y = c.y);
WITH j AS (SELECT a.*, b.z FROM a JOIN b ON a.id = b.id) SELECT c.w FROM c JOIN b ON c.id = b.id WHERE c.id IN (SELECT j.x FROM j WHERE j.z <= b.z);
WITH j AS (SELECT a.id, a.y, b.z FROM a JOIN b ON a.id = b.id) SELECT DISTINCT y FROM j JOIN c USING (id, y);
WITH j AS (SELECT a.id, a.y, b.z FROM a JOIN b ON a.id = b.id) SELECT c.w FROM j NATURAL JOIN c;
WITH j (k, l, m) AS (SELECT a.id, a.y, b.z FROM a JOIN b ON a.id = b.id) SELECT j.m, c.w FROM j JOIN c ON j.k = c.id;
WITH j AS (SELECT a.id, a.y, b.z FROM a JOIN b ON a.id = b.id) SELECT d.m, c.w FROM j AS d (k, l, m) JOIN c ON d.k = c.id;
WITH j AS (SELECT DISTINCT a.id, a.y, b.x FROM a JOIN b ON a.id = b.id) SELECT j.id, c.w FROM j JOIN c ON j.id = c.id;
WITH j AS (SELECT a.id, a.x, sum(b.x) AS s FROM a JOIN b ON a.id = b.id GROUP BY 1, 2) SELECT j.s, c.w FROM j JOIN c ON j.id = c.id;
WITH j AS (SELECT a.id, a.x, sum(b.x) AS s FROM a JOIN b ON a.id = b.id GROUP BY ROLLUP (1, 2)) SELECT j.s, c.w FROM j JOIN c ON j.id = c.id;
WITH j AS (SELECT a.id, a.x, max(b.x) AS m FROM a JOIN b ON a.id = b.id GROUP BY ALL) SELECT j.m, c.w FROM j JOIN c ON j.id = c.id;
WITH j AS (SELECT a.id, a.x, b.x AS v FROM a JOIN b ON a.id = b.id ORDER BY 2, 3, 1 LIMIT 3) SELECT j.v, c.w FROM j JOIN c ON j.id = c.id;
WITH j AS (SELECT a.x AS k, k + 1 AS n, b.id FROM a JOIN b ON a.id = b.id) SELECT j.n, c.w FROM j JOIN c ON j.id = c.id;
WITH j AS (SELECT a.id, a.x, b.z FROM a JOIN b ON a.id = b.id UNION ALL SELECT a.id, b.x, a.y FROM a JOIN b ON a.x = b.x) SELECT j.z, c.w FROM j JOIN c ON j.id = c.id;
WITH j AS (SELECT a.id, a.x, b.z FROM a JOIN b ON a.id = b.id INTERSECT SELECT a.id, b.x, a.y FROM a JOIN b ON a.x = b.x) SELECT j.id, c.w FROM j JOIN c ON j.id = c.id;
WITH j AS (SELECT a.*, b.z FROM a JOIN b ON a.id = b.id), k AS (SELECT j.*, c.w FROM j JOIN c ON j.id = c.id) SELECT k.w, k.z FROM k JOIN t ON k.x = t.x;
WITH j AS (SELECT a.*, row_number() OVER (PARTITION BY a.id ORDER BY a.x, a.d, b.x, b.z) AS n FROM a JOIN b ON a.id = b.id) SELECT j.n, c.w FROM j JOIN c ON j.id = c.id;

-- == texts
SELECT a.id /* comment FROM _qoop_core */, b.x -- more
FROM a JOIN b ON a.id = b.id;
-- alone: are reserved by the planner, and _qoop_core
SELECT 'FROM _qoop_core' AS s, b.x FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id;
SELECT a.id, 'it''s; -- not' AS s, "dq" AS r FROM a JOIN b ON a.id = b.id;

SELECT a.id, "say ""yes""" AS s, 'x""y' AS r, 'b\\s' AS q, '' AS o FROM a JOIN b ON a.id = b.id;
-- alone: the planner cannot reproduce the query exactly: Argument 'ins_cost'
SELECT levenshtein(CAST(a.d AS STRING), '2000', 2) FROM a JOIN b ON a.id = b.id;
-- alone: the planner cannot reproduce PERCENTILE_CONT exactly
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY b.x) FROM a JOIN b ON a.id = b.id;
-- alone: STRUCT(*) uses a whole row (*) as a value
SELECT struct(*) FROM a JOIN b ON a.id = b.id;

-- == in one piece
-- alone: LOCALTIMESTAMP must be evaluated once
SELECT localtimestamp() FROM a JOIN b ON a.id = b.id;
-- alone: REFLECT('c', 'm') must be evaluated once
SELECT reflect('c', 'm') FROM a JOIN b ON a.id = b.id;
-- alone: RAND() must be evaluated once
SELECT rand() < 2 FROM a JOIN b ON a.id = b.id;
-- alone: RAND() must be evaluated once
SELECT a.id FROM a JOIN b ON a.id = b.id WHERE rand() < 2;
-- alone: the query has hints
SELECT /*+ BROADCAST(b) */ a.id FROM a JOIN b ON a.id = b.id;
-- alone: TABLESAMPLE (100 PERCENT) must be evaluated once
SELECT a.id FROM a TABLESAMPLE (100 PERCENT) JOIN b ON a.id = b.id;
-- alone: the query has a recursive CTE
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT r.n, b.x FROM r JOIN b ON r.n = b.id;
-- alone: the statement is not a SELECT
(SELECT a.id FROM a JOIN b ON a.id = b.id JOIN c ON c.id = b.id);
