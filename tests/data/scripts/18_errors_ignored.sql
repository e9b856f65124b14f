-- options: --hiveconf hive.cli.errors.ignore=true
SELECT 1 / 0;
SELEC 1;
SELECT i.category, count(*) FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store GROUP BY i.category ORDER BY i.category;
SELECT * FROM not_there;
