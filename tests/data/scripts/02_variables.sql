-- options: --hivevar day=2 --hiveconf least=3
SELECT '${day}', '${hivevar:day}', '${hiveconf:least}', '${missing}';
SET city=Bern;
SELECT s.id, i.name, s.qty FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store
WHERE s.day = ${day} AND s.qty >= ${hiveconf:least} AND t.city = '${city}' ORDER BY s.id;
