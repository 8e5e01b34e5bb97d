(* Page 12, "Which sparse patterns lose nothing?", continued:
   Theorem 12.9, Propositions 12.14, 12.16, 12.17, 12.18 and 12.20. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions patterns_and_conditions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* Whom a token has heard of after t layers of a pattern of p steps, (12.2). *)
Local Notation heard p A := (heard_of (fun t => A (t %% p)%N)).

(* Proposition 12.14 (Dilation cycle). *)
Definition cycle (l k j : nat) := (k == j) || (dist k j == 2 ^ l).
Lemma cycle_heard n p t (k i : 'I_n) : t <= p ->
  (i \in heard p (@pattern n cycle) t k) = (dist k i < 2 ^ t).
Proof.
move=> tp; apply/idP/idP.
  elim: t k tp => [|t IH] k tp; first by move/set1P ->; rewrite /dist expn0; arith.
  case/patternP => j kj /(IH _ (ltnW tp)); rewrite modn_small // in kj; move: kj;
    rewrite /cycle expnS.
  by rewrite /dist; arith.
elim: t k tp => [|t IH] k tp; first by rewrite inE /dist expn0 => ?; apply/eqP/val_inj => /=; arith.
rewrite expnS => ki; apply/patternP; rewrite modn_small // /cycle.
have [near|far] := ltnP (dist k i) (2 ^ t); first by exists k; rewrite ?eqxx ?IH // ltnW.
have [lt|le] := ltnP k i.
  have jn : k + 2 ^ t < n by move: far (ltn_ord i); rewrite /dist; arith.
  by exists (Ordinal jn) => /=; [|apply: IH; rewrite ?(ltnW tp) //=]; move: far ki; rewrite /dist;
    arith.
have jn : k - 2 ^ t < n by move: (ltn_ord k); arith.
by exists (Ordinal jn) => /=; [|apply: IH; rewrite ?(ltnW tp) //=]; move: far ki; rewrite /dist;
  arith.
Qed.
Lemma cycle_ones n l : ones n.+1 (cycle l) <= 3 * n + 1.
Proof.
elim: n => [|n IH]; first by rewrite /ones !big_ord_recl !big_ord0 /cycle /dist; arith.
rewrite onesS; have : cycle l n.+1 n.+1 <= 1 by arith.
suff : \sum_(j < n.+1) (cycle l n.+1 j + cycle l j n.+1) <= 2 by move: IH; arith.
rewrite (eq_bigr (fun j : 'I_n.+1 => if j == n.+1 - 2 ^ l :> nat then (2 ^ l <= n.+1) * 2 else 0))
  => [|j _]; last first.
  have := expn_gt0 2 l; move: (ltn_ord j); rewrite /cycle /dist; case: ifP; arith.
rewrite -big_mkcond /= sum_nat_const; apply: (@leq_mul _ _ 1 2); last by case: (2 ^ l <= _).
by apply/card_le1P => i /eqP ii j; rewrite !inE -ii; apply/eqP/eqP => [/val_inj|->].
Qed.
Theorem dilation_cycle n : 1 < n -> let p := up_log 2 n in let A := @pattern n cycle in
  [/\ condition1 p A, condition2 p A, condition3 p A, hops p A p & most_connections p A = 3 * n -
    2].
Proof.
move=> n1 p A; have p0 : 0 < p by rewrite up_log_gt0.
have np : n <= 2 ^ p by apply: up_logP.
have pn : 2 ^ p.-1 < n by apply: up_log_gtn.
clearbody p; have n0 : 0 < n by arith.
have c1 : condition1 p A by move=> l k _; rewrite inE /cycle eqxx.
have fp : full p A p.
  move=> k; apply/setP => i; rewrite [RHS]inE cycle_heard //.
  by move: (ltn_ord i) (ltn_ord k); rewrite /dist; arith.
split=> //; last 1 first.
- apply/eqP; rewrite eqn_leq; apply/andP; split.
    apply/bigmax_leqP => -[/= l _] _; rewrite connectionsE.
    by have := cycle_ones n.-1 l; rewrite (prednK n0); arith.
  apply: leq_trans (_ : connections A 0 <= _); last by rewrite (bigmax_sup (Ordinal p0)).
  rewrite connectionsE (eq_ones (r' := window 1 0)).
    by have := @window_ones n 1 n0; arith.
  by move=> k j _ _; rewrite /cycle /window /dist expn0; arith.
- by apply: in_order => k j kj; apply: (@readsP _ _ _ _ _ 0); rewrite // /cycle /dist expn0; arith.
- by exists p.
- (* in p - 1 layers one gets less than n - 1 places far *)
  rewrite -(prednK p0); apply: hops_next => //; rewrite ?prednK // => f.
  have last_n : n.-1 < n by arith.
  have /setP/(_ (Ordinal last_n)) := f (Ordinal n0); rewrite [RHS]inE cycle_heard ?leq_pred //
    /dist /=.
  by move: pn; arith.
Qed.
Example dilation_4 : hops 2 (@pattern 4 cycle) 2 /\ most_connections 2 (@pattern 4 cycle) = 10.
Proof. by case: (@dilation_cycle 4 isT). Qed.

(* Proposition 12.16 (Longformer and BigBird). *)
Definition longformer g h (_ k j : nat) := (dist k j <= h) || (k < g) || (j < g).
Lemma longformer_ones n g h : g + h <= n ->
  ones n (longformer g h 0) + h * (h + 1) + g * g + 2 * g * (h + 1) = (2 * h + 1) * n + 2 * g * n +
    g.
Proof.
move=> ghn; rewrite -(subnK ghn); elim: (n - _) => [|m IH]; rewrite ?add0n ?addSn.
  rewrite ones_all => [|k j]; last by rewrite /longformer /dist; arith.
  by nonlinear.
rewrite onesS (_ : \sum_(j < m + (g + h)) _ = 2 * (g + h)).
  by move: IH; rewrite /longformer /dist; nonlinear.
rewrite (eq_bigr (fun j : 'I_(m + (g + h)) => 2 * ((j < g) + (m + g <= j)))) => [|j _]; last first.
  by move: (ltn_ord j); rewrite /longformer /dist; arith.
rewrite -big_distrr big_split /= sum_lt; last by arith.
congr (2 * (g + _)); have mg : m + g <= m + (g + h) by arith.
apply/eqP; rewrite -(eqn_add2l (m + g)) -[X in X + _ == _](sum_lt mg) -big_split /=.
rewrite (eq_bigr (fun _ => 1)) => [|j _]; last by arith.
by rewrite sum_nat_const card_ord muln1 addnA.
Qed.
Theorem longformer_hops n g h : 0 < h -> 0 < g -> 2 * h + 1 <= n -> g + h + 2 <= n ->
  let A := @pattern n (longformer g h) in
  [/\ condition1 1 A, condition2 1 A, condition3 1 A, hops 1 A 2 &
      most_connections 1 A = (2 * h + 1) * n - h * (h + 1) + 2 * g * (n - 1 - h) - g * (g - 1)].
Proof.
move=> h0 g0 hn ghn A; have n0 : 0 < n by arith.
have c1 : condition1 1 A by move=> l k _; rewrite inE /longformer /dist; arith.
have f2 : full 1 A 2.
  move=> k; apply/setP => i; rewrite [RHS]inE; apply/patternP; exists (Ordinal n0) => /=.
    by rewrite /longformer /=; arith.
  by apply/patternP; exists i; rewrite ?inE //= /longformer /=; arith.
split=> //; last 1 first.
- rewrite most1 connectionsE; have ghn2 : g + h <= n by arith.
  have := longformer_ones ghn2; set C := ones _ _ => eqC.
  have [m nm] : exists m, n = m + (g + h + 2) by exists (n - (g + h + 2)); arith.
  have -> : n - 1 - h = m + g + 1 by arith.
  have -> : g * (g - 1) = g * g - g by nonlinear.
  have -> : (2 * h + 1) * n - h * (h + 1) = (2 * h + 1) * n + 0 - h * (h + 1) by arith.
  by rewrite nm in eqC *; nonlinear.
- by apply: in_order => k j kj; apply: (@readsP _ _ _ _ _ 0); rewrite // /longformer /dist; arith.
- by exists 2.
(* token n - 1 does not read token g *)
apply: hops_next => // f1; have gn : g < n by arith.
have last_n : n.-1 < n by arith.
have /setP/(_ (Ordinal gn)) := f1 (Ordinal last_n); rewrite [RHS]inE => /patternP[j].
by rewrite inE /longformer => kj /eqP ij; move: kj; rewrite -ij /dist /=; arith.
Qed.
Example longformer_4 : hops 1 (@pattern 4 (longformer 1 1)) 2 /\
  most_connections 1 (@pattern 4 (longformer 1 1)) = 14.
Proof. by case: (@longformer_hops 4 1 1 isT isT isT isT). Qed.
Theorem bigbird n g h r (B : nat -> 'I_n -> {set 'I_n}) :
  0 < h -> 0 < g -> 2 * h + 1 <= n -> g + h + 2 <= n ->
  (forall k, @pattern n (longformer g h) 0 k \subset B 0 k /\
             #|B 0 k| <= #|@pattern n (longformer g h) 0 k| + r) ->
  [/\ condition1 1 B, condition2 1 B, condition3 1 B, full 1 B 2 &
      most_connections 1 B <= most_connections 1 (@pattern n (longformer g h)) + r * n].
Proof.
move=> h0 g0 hn ghn AB; have [c1 _ _ [f2 _] _] := longformer_hops h0 g0 hn ghn.
have sub l (k j : 'I_n) : l < 1 -> longformer g h l k j -> j \in B l k.
  by case: l => // _ kj; have [/subsetP s _] := AB k; apply: s; rewrite inE.
have f2B : full 1 B 2.
  have n0 : 0 < n by arith.
  move=> k; apply/setP => i; rewrite [RHS]inE; apply/heardP; exists (Ordinal n0).
    by apply: sub => //; rewrite /longformer /=; arith.
  by apply/heardP; exists i; rewrite ?inE //; apply: sub => //; rewrite /longformer /=; arith.
split=> //.
- by move=> l k l1; apply: sub => //; rewrite /longformer /dist; arith.
- apply: in_order => k j kj; apply/existsP; exists ord0; apply: sub => //.
  by rewrite /longformer /dist; arith.
- by exists 2.
rewrite !most1 -[n in _ + _ * n]card_ord mulnC -sum_nat_const -big_split /=.
by apply: leq_sum => k _; case: (AB k).
Qed.
Example bigbird_4 : full 1 (@pattern 4 (longformer 1 1)) 2.
Proof.
have [k|//] := @bigbird 4 1 1 0 (@pattern 4 (longformer 1 1)) isT isT isT isT.
by rewrite addn0 subxx leqnn.
Qed.

(* Proposition 12.20 (Fixed). *)
Definition fixed w (l k j : nat) := if l == 0 then k %/ w == j %/ w else (k == j) || (w %| j.+1).
Definition fixed_last n w (l k j : nat) := if l == 0 then k %/ w == j %/ w else [|| k == j,
  w %| j.+1 | j == n.-1].
Lemma block_end w j : 0 < w -> let e := j %/ w * w + w.-1 in
  [/\ e %/ w = j %/ w, w %| e.+1, j <= e & (w %| j.+1 -> j = e)].
Proof.
move=> w0 e; have w1 : w.-1 < w by arith.
have je : j <= e.
  by rewrite /e {1}(divn_eq j w) leq_add2l; move: (ltn_pmod j w0); arith.
split=> //.
- by rewrite /e divnMDl // [w.-1 %/ w]divn_small ?addn0.
- by rewrite /e -addnS prednK // dvdn_addr ?dvdn_mull.
case/dvdnP => q jq; have q0 : 0 < q by case: q jq.
have jE : j = q.-1 * w + w.-1 by case: q q0 jq => // q _ /=; rewrite mulSn; arith.
by rewrite /e {2}jE divnMDl // [w.-1 %/ w]divn_small // addn0.
Qed.

Lemma fixed_path n w (r : nat -> rel nat) : 1 < w -> (forall l k j, fixed w l k j -> r l k j) ->
  condition2 2 (@pattern n r).
Proof.
move=> w1 sub; have w0 : 0 < w by arith.
apply: in_order => k j kj; have [end_j|inner] := boolP (w %| j.+1).
  by apply: (@readsP _ _ _ _ _ 1) => //; apply: sub; rewrite /fixed end_j orbT.
apply: (@readsP _ _ _ _ _ 0) => //; apply: sub; rewrite /fixed /= kj.
rewrite eq_sym; apply/eqP; have [e1 e2 je ] := block_end j w0.
have jlt : j.+1 < (j %/ w).+1 * w.
  move: je e2; rewrite leq_eqVlt => /predU1P[<-|]; first by rewrite (negbTE inner).
  by rewrite mulSn; arith.
move=> _; apply/eqP; rewrite eqn_leq leq_div2r //= -ltnS ltn_divLR //.
Qed.

Lemma fixed_full n w (r : nat -> rel nat) : 0 < w -> (forall l k j, fixed w l k j -> r l k j) ->
  (forall k j : 'I_n, exists2 e : 'I_n, r 1 k e & e %/ w = j %/ w) -> full 2 (@pattern n r) 2.
Proof.
move=> w0 sub ends k; apply/setP => i; rewrite [RHS]inE; have [e ke ei] := ends k i.
apply/patternP; exists e => //; apply/patternP; exists i; rewrite ?inE //.
by apply: sub; rewrite /fixed /= ei.
Qed.

Theorem fixed_pattern n w : 1 < w < n -> let A := @pattern n (fixed w) in
  [/\ condition1 2 A, condition2 2 A, (w %| n -> hops 2 A 2) & (~~ (w %| n) -> ~ condition3 2 A)] /\
  hops 2 (@pattern n (fixed_last n w)) 2.
Proof.
case/andP=> w1 wn A; have w0 : 0 < w by arith. have n0 : 0 < n by arith.
have c1 : condition1 2 A by case=> [|l] k _; rewrite inE /fixed /= eqxx.
have c1' : condition1 2 (@pattern n (fixed_last n w)) by case=> [|l] k _;
  rewrite inE /fixed_last /= eqxx.
have not1 (r : nat -> rel nat) : (forall k j, r 0 k j -> k %/ w == j %/ w) ->
  ~ full 2 (@pattern n r) 1.
  move=> sub /(_ (Ordinal n0))/setP/(_ (Ordinal wn)); rewrite [RHS]inE => /patternP[j /sub /=].
  by rewrite inE => e /eqP ij; move: e; rewrite -ij div0n /= divnn w0.
split; first split=> //.
- by apply: (@fixed_path n w).
- move=> wdn; apply: hops_next => //; last exact: not1.
  apply: (@fixed_full n w) => // k j; have [e1 e2 je _] := block_end j w0.
  have en : j %/ w * w + w.-1 < n.
    apply: leq_trans (_ : (j %/ w).+1 * w <= n); first by rewrite mulSn; arith.
    rewrite -[X in _ <= X](divnK wdn).
    by rewrite leq_mul2r ltn_divLR // divnK // (ltn_ord j) orbT.
  by exists (Ordinal en); rewrite //= /fixed /= e2 orbT.
- move=> ndvd; have last_n : n.-1 < n by arith.
  case=> t /(_ (Ordinal n0))/setP/(_ (Ordinal last_n)); rewrite [RHS]inE => H.
  have B0 : 0 < n %/ w * w by rewrite muln_gt0 divn_gt0 // w0 ltnW.
  have Bn : n %/ w * w < n by rewrite ltn_neqAle leq_trunc_div andbT -dvdn_eq.
  (* a token of a full block hears of the full blocks alone *)
  have full_blocks u (k j : 'I_n) : k < n %/ w * w -> j \in heard 2 A u k -> j < n %/ w * w.
    elim: u k => [|u IH] k kB; first by move/set1P ->.
    case/patternP => i ki; apply: IH; move: ki; rewrite /fixed; case: ifP => _.
      by move/eqP=> e; rewrite -ltn_divLR // -e ltn_divLR.
    case/orP=> [/eqP <- //|/dvdnP[q iq]]; rewrite iq leq_mul2r; apply/orP; right.
    by rewrite leq_divRL // -iq.
  have := full_blocks t (Ordinal n0) (Ordinal last_n) B0.
  by rewrite H => /(_ isT) /=; arith.
apply: hops_next => //; last exact: not1.
apply: (@fixed_full n w) => // [l k j|k j].
  by rewrite /fixed /fixed_last; case: ifP => // _ /orP[->|->]; rewrite ?orbT.
have [e1 e2 je _] := block_end j w0; have [en|le] := ltnP (j %/ w * w + w.-1) n.
  by exists (Ordinal en); rewrite //= /fixed_last /= e2 orbT.
have last_n : n.-1 < n by arith.
exists (Ordinal last_n); rewrite /= ?/fixed_last /= ?eqxx ?orbT //.
apply/eqP; rewrite eqn_leq; apply/andP; split; first rewrite -e1.
  by apply: leq_div2r; move: (ltn_ord j) le; arith.
by apply: leq_div2r; move: (ltn_ord j); arith.
Qed.
Example fixed_4_5 : hops 2 (@pattern 4 (fixed 2)) 2 /\ ~ condition3 2 (@pattern 5 (fixed 2)).
Proof.
by have [[_ _ h _] _] := @fixed_pattern 4 2 isT; have [[_ _ _ f] _] := @fixed_pattern 5 2 isT;
  split;
  [apply: h|apply: f].
Qed.

(* Proposition 12.17 (LogSparse). *)
Definition power k j := [exists i : 'I_k, k == j + 2 ^ i].        (* j = k - 1, k - 2, k - 4, ... *)
Definition logsparse (_ k j : nat) := (k == j) || power k j.
Definition logsparse2 (_ k j : nat) := [|| k == j, power k j | power j k].
Lemma powerP k j i : k = j + 2 ^ i -> power k j.
Proof.
move=> ke; have lt : i < k by rewrite ke ltn_addl // ltn_expl.
by apply/existsP; exists (Ordinal lt); rewrite -ke.
Qed.
Lemma heard_sub (T : finType) p q (A B : nat -> T -> {set T}) :
  (forall t k, A (t %% p) k \subset B (t %% q) k) -> forall t k,
    heard p A t k \subset heard q B t k.
Proof.
move=> AB; elim=> [|t IH] k //; apply/subsetP => i /heardP[j jA ij]; apply/heardP; exists j.
  by apply: (subsetP (AB t k)).
exact: (subsetP (IH j)).
Qed.
Lemma shifted_ones n a : \sum_(k < n) \sum_(j < n) (k == j + a :> nat) = n - a.
Proof.
rewrite exchange_big /= -[RHS](@sum_lt n) ?leq_subr //; apply: eq_bigr => j _.
have [lt|le] := ltnP (j + a) n.
  rewrite (bigD1 (Ordinal lt)) //= eqxx big1 => [|k]; first by move: lt; arith.
  by rewrite -val_eqE /= => /negbTE ->.
by rewrite big1 => [|k _]; [move: le (ltn_ord j)|move: (ltn_ord k) le]; arith.
Qed.
Lemma logsparse_ones n : 0 < n -> ones n (logsparse 0) + 2 ^ up_log 2 n = n + n * up_log 2 n + 1.
Proof.
set L := up_log 2 n => n0; have nL : n <= 2 ^ L by apply: up_logP.
have small i : i < L -> 2 ^ i < n.
  move=> iL; have n1 : 1 < n by case: n n0 {nL} @L iL => [|[|]] //; rewrite up_log1.
  by apply: leq_ltn_trans (up_log_gtn (isT : 1 < 2) n1); rewrite leq_exp2l // -ltnS (ltn_predK iL).
(* a power is taken back by n - 2^i tokens *)
have -> : ones n (logsparse 0) = n + \sum_(i < L) (n - 2 ^ i).
  rewrite -(eq_bigr _ (fun (i : 'I_L) _ => shifted_ones n (2 ^ i))) exchange_big /=.
  rewrite -[X in X + _](subn0 n) -(shifted_ones n 0) -big_split /=; apply: eq_bigr => k _.
  rewrite [X in _ + X]exchange_big -big_split /=; apply: eq_bigr => j _; rewrite addn0 /logsparse.
  have [/existsP[i /eqP ke]|none] := boolP (power k j).
    have iL : i < L.
      rewrite -(@ltn_exp2l 2) //; apply: leq_trans nL; apply: leq_ltn_trans (ltn_ord k).
      by rewrite {2}ke leq_addl.
    have kj : (k == j :> nat) = false by rewrite ke; have := expn_gt0 2 i; arith.
    rewrite orbT kj (bigD1 (Ordinal iL)) //= {1}ke eqxx big1 ?addn0 // => i' ii'.
    by rewrite ke eqn_add2l eqn_exp2l // eq_sym; move: ii'; rewrite -val_eqE /= => /negbTE ->.
  rewrite orbF big1 ?addn0 // => i _; case: eqP => // ke.
  by rewrite (powerP ke) in none.
have two : \sum_(i < L) 2 ^ i + 1 = 2 ^ L.
  by elim: (L) => [|l IH]; rewrite ?big_ord0 // big_ord_recr /= addnAC IH expnS mul2n addnn.
have : \sum_(i < L) (n - 2 ^ i) + \sum_(i < L) 2 ^ i = n * L.
  rewrite -big_split /= (eq_bigr (fun _ => n)) => [|i _];
    first by rewrite sum_nat_const card_ord mulnC.
  by rewrite subnK // ltnW // small.
by move: two; arith.
Qed.
Theorem logsparse_pattern n : 1 < n -> let L := up_log 2 n in
  let A := @pattern n logsparse in let B := @pattern n logsparse2 in
  [/\ most_connections 1 A = n + n * L - 2 ^ L + 1, condition1 1 A,
    condition2 1 A & ~ condition3 1 A] /\
  [/\ condition1 1 B, condition2 1 B, condition3 1 B & forall s, hops 1 B s -> s <= L].
Proof.
move=> n1 L A B; have n0 : 0 < n by arith.
have next k j : k = j.+1 -> power k j by move=> e; apply: (@powerP _ _ 0); rewrite e addn1.
have f : full 1 B L.
  have [_ _ _ [f _] _] := dilation_cycle n1; move=> k; apply/eqP; rewrite eqEsubset subsetT -(f k).
  apply: heard_sub => t i; rewrite modn1; apply/subsetP => j; rewrite !inE /cycle /logsparse2.
  case/orP=> [->//|/eqP]; set q := t %% _; rewrite /dist => e.
  have [le|lt] := leqP i j.
    by rewrite (@powerP j i q) ?orbT //; move: le e; arith.
  by rewrite (@powerP i j q) ?orbT //; move: lt e; arith.
split; split.
- rewrite most1 connectionsE; have := logsparse_ones n0; rewrite -/L.
  have : 2 ^ L <= n + n * L.
    have := up_log_gtn (isT : 1 < 2) n1; have : 0 < L by rewrite up_log_gt0.
    rewrite -/L; case: (L) => // l _ /=; rewrite expnS mulnS; arith.
  by arith.
- by move=> l k _; rewrite inE /logsparse eqxx.
- by apply: in_order => k j /next kj; apply: (@readsP _ _ _ _ _ 0); rewrite // /logsparse kj orbT.
- apply: causal => // l k j _; rewrite inE => /orP[/eqP ->//|/existsP[i /eqP ->]]; exact: leq_addr.
- by move=> l k _; rewrite inE /logsparse2 eqxx.
- by apply: in_order => k j /next kj; apply: (@readsP _ _ _ _ _ 0); rewrite // /logsparse2 kj orbT.
- by exists L.
by move=> s [_]; apply.
Qed.
Example logsparse_5 : most_connections 1 (@pattern 5 logsparse) = 13 /\
  ~ condition3 1 (@pattern 5 logsparse).
Proof. by case: (@logsparse_pattern 5 isT) => -[c _ _ f] _. Qed.

(* Theorem 12.9 (Fewest connections). *)
Theorem fewest (T : finType) p (A : nat -> T -> {set T}) : 1 < #|T| -> 0 < p ->
  condition1 p A -> condition3 p A ->
  2 * #|T| <= \sum_k #|\bigcup_(l < p) A l k| /\ exists2 l, l < p & #|T| + 1 <= connections A l.
Proof.
move=> n2 p0 c1 [t f].
(* every token reads another one in some step *)
have other k : exists2 l : 'I_p, k \in A l k & exists2 j, j \in A l k & j != k.
  have [/existsP[l /exists_inP[j jA jk]]|/existsPn none] :=
    boolP [exists l : 'I_p, [exists (j | j \in A l k), j != k]].
    by exists l; [exact: c1|exists j].
  suff alone s : heard p A s k \subset [set k].
    by have := subset_leq_card (alone t); rewrite f cardsT cards1 leqNgt n2.
  elim: s => [|s IH] //=; apply/bigcupsP => j jA.
  have /exists_inPn/(_ j jA) := none (Ordinal (ltn_pmod s p0)); rewrite negbK => /eqP -> //.
have two (S : {set T}) k j : k \in S -> j \in S -> j != k -> 2 <= #|S|.
  by move=> kS jS jk; apply/card_gt1P; exists j, k.
split.
  rewrite mulnC -sum_nat_const; apply: leq_sum => k _; have [l kA [j jA jk]] := other k.
  by apply: (@two _ k j) => //; apply/bigcupP; exists l.
have /card_gt0P[k _] : 0 < #|T| by apply: ltnW.
have [l kA [j jA jk]] := other k; exists l => //.
have c1' i : 1 <= #|A l i| by apply/card_gt0P; exists i; apply: c1.
have le : \sum_(i | i != k) 1 <= \sum_(i | i != k) #|A l i| by apply: leq_sum.
have eT : #|T| = \sum_(i | i != k) 1 + 1 by rewrite -sum1_card (bigD1 k) //= addnC.
have le2 := @two _ k j kA jA jk.
by rewrite /connections (bigD1 k) //= eT; move: le le2; arith.
Qed.
(* the directed cycle *)
Definition prev n k := (k + n.-1) %% n.
Definition circle n (_ k j : nat) := (k == j) || (j == prev n k).
Definition edges n (l k j : nat) := (k == j) || ((k == l.+1 %% n) && (j == prev n k)).
Lemma prevP n k : k < n -> prev n k = if k == 0 then n.-1 else k.-1.
Proof.
case: n => // n kn; rewrite /prev; case: k kn => [|k] kn; first by rewrite modn_small.
by rewrite addSnnS modnDr modn_small // ltnW.
Qed.
(* how far j lies behind k on the circle *)
Definition back n k j := if j <= k then k - j else k + n - j.
Lemma circle_heard n t (k i : 'I_n) : (i \in heard 1 (@pattern n (circle n)) t k) = (back n k i <=
  t).
Proof.
have ineq := (ltn_ord k, ltn_ord i); apply/idP/idP.
  elim: t k {ineq} => [|t IH] k; first by move/set1P ->; rewrite /back; case: ifP; arith.
  case/patternP => j + /IH; move: (ltn_ord j) (ltn_ord k) (ltn_ord i).
  by rewrite /circle prevP // /back; case: ifP; case: ifP; case: ifP; arith.
elim: t k {ineq} => [|t IH] k; move: (ltn_ord k) (ltn_ord i) => kn ik.
  by rewrite inE /back => le; apply/eqP/val_inj => /=; move: kn ik le; case: ifP; arith.
move=> le; apply/patternP; have [e|ne] := eqVneq k i.
  by exists k; rewrite /circle ?eqxx // e IH // /back; case: ifP; arith.
have pn : prev n k < n by rewrite prevP //; case: ifP; arith.
exists (Ordinal pn); first by rewrite /circle /= eqxx orbT.
apply: IH; move: ne le; rewrite -val_eqE /back /= prevP //.
by case: ifP; case: ifP; case: ifP; move: kn ik; arith.
Qed.
Lemma circle_ones n l : 1 < n -> ones n (circle n l) = 2 * n.
Proof.
move=> n1; have -> : 2 * n = \sum_(k < n) 2 by rewrite sum_nat_const card_ord mulnC.
apply: eq_bigr => k _; have kn := ltn_ord k.
have pn : prev n k < n by rewrite prevP //; case: ifP; arith.
rewrite (bigD1 k) //= (bigD1 (Ordinal pn)) /=; last first.
  by rewrite -val_eqE /= prevP //; case: ifP; arith.
rewrite big1 => [|j /andP[jk jp]]; first by rewrite /circle /= !eqxx orbT.
rewrite /circle; move: jk jp; rewrite -!val_eqE /= eq_sym => /negbTE -> /negbTE ->; done.
Qed.
Theorem circle_attains n : 1 < n -> let A := @pattern n (circle n) in
  [/\ condition1 1 A, condition2 1 A, condition3 1 A, hops 1 A n.-1 & connections A 0 = 2 * n].
Proof.
move=> n1 A; have n0 : 0 < n by arith.
have fP t : full 1 A t <-> n.-1 <= t.
  have last_n : n.-1 < n by arith.
  split=> [/(_ (Ordinal n0))/setP|le k]; last first.
    apply/setP => i; rewrite inE circle_heard; move: (ltn_ord k) (ltn_ord i); rewrite /back.
    by case: ifP; arith.
  by move/(_ (Ordinal n1)); rewrite [RHS]inE circle_heard /back /=; arith.
have h : hops 1 A n.-1 by split=> [|t /fP] //; apply/fP.
split=> //; last by rewrite connectionsE circle_ones.
- by move=> l k _; rewrite inE /circle eqxx.
- apply: in_order => k j kj; apply: (@readsP _ _ _ _ _ 0) => //; rewrite /circle prevP ?ltn_ord //.
  by case: ifP; move: kj; arith.
- by exists n.-1; case: h.
Qed.

(* its edges, one a step *)
Lemma edges_heard n t (k i : 'I_n) : t <= 2 * n - 2 ->
  (i \in heard n (@pattern n (edges n)) t k) = [|| i == k, (i < k) && (k <= t) | n + k <= t].
Proof.
have n0 : 0 < n by apply: leq_ltn_trans (ltn_ord k).
elim: t k => [|t IH] k tn.
  by rewrite inE; case: eqP => //= _; move: (ltn_ord i) n0; arith.
have kn := ltn_ord k; have jn := ltn_ord i; have tn' : t <= 2 * n - 2 by apply: ltnW.
have pn : prev n k < n by rewrite prevP //; case: ifP; arith.
(* token t + 1 mod n reads the token before it *)
have -> : (i \in heard n (@pattern n (edges n)) t.+1 k) =
   (i \in heard n (@pattern n (edges n)) t k) ||
   ((k == t.+1 %% n :> nat) && (i \in heard n (@pattern n (edges n)) t (Ordinal pn))).
  apply/patternP/orP => [[j]|[ik|/andP[kt ij]]].
  - rewrite /edges -[(t %% n).+1]addn1 modnDml addn1; case/orP=> [/eqP/val_inj kj ij|].
      by left; rewrite [X in heard_of _ _ X]kj.
    by case/andP=> -> /eqP e ij; right; rewrite (_ : Ordinal pn = j) //; apply: val_inj.
  - by exists k; rewrite // /edges eqxx.
  by exists (Ordinal pn); rewrite // /edges -[(t %% n).+1]addn1 modnDml addn1 kt eqxx orbT.
rewrite !IH // -!val_eqE /=.
have -> : t.+1 %% n = if t.+1 < n then t.+1 else t.+1 - n.
  case: ltnP => [lt|le]; first by rewrite modn_small.
  rewrite -{1}(subnK le) modnDr modn_small //; move: tn le; arith.
rewrite prevP //; case: ifP; case: ifP; move: kn jn tn; arith.
Qed.
Lemma edges_ones n l : 1 < n -> ones n (edges n l) = n + 1.
Proof.
move=> n1; have n0 : 0 < n by arith.
have rn : l.+1 %% n < n by rewrite ltn_pmod.
have pn : prev n (l.+1 %% n) < n by rewrite prevP //; case: ifP; arith.
have -> : n + 1 = \sum_(k < n) (1 + (k == Ordinal rn)).
  rewrite big_split /= sum_nat_const card_ord muln1 (bigD1 (Ordinal rn)) //= eqxx big1 ?addn0 // =>
    k.
  by move/negbTE ->.
apply: eq_bigr => k _; rewrite (bigD1 k) //= {1}/edges eqxx; congr (1 + _).
rewrite -val_eqE /=; case: eqP => [kr|ne]; last first.
  rewrite big1 // => j; rewrite -val_eqE /edges /= eq_sym => /negbTE ->.
  by case: eqP.
rewrite (bigD1 (Ordinal pn)) /=; last by rewrite -val_eqE /= kr prevP //; case: ifP; arith.
rewrite /edges kr !eqxx orbT big1 // => j /andP[]; rewrite -!val_eqE /= kr eq_sym.
by move=> /negbTE -> /negbTE ->.
Qed.
Theorem edges_attain n : 1 < n -> let A := @pattern n (edges n) in
  [/\ condition1 n A, condition2 n A, condition3 n A, hops n A (2 * n - 2) &
      forall l, connections A l = n + 1].
Proof.
move=> n1 A; have n0 : 0 < n by arith.
have c1 : condition1 n A by move=> l k _; rewrite inE /edges eqxx.
have f : full n A (2 * n - 2).
  move=> k; apply/setP => i; rewrite [RHS]inE edges_heard // -val_eqE /=.
  by move: (ltn_ord k) (ltn_ord i); arith.
split=> //.
- apply: in_order => k j kj; have jn : j < n by []. have kn := ltn_ord k.
  apply: (@readsP _ _ _ _ _ j) => //; rewrite /edges prevP // kj modn_small -?kj //.
  by case: ifP; rewrite kj; arith.
- by exists (2 * n - 2).
- (* token n - 2 hears of n - 1 last *)
  have e : 2 * n - 2 = (2 * n - 3).+1 by arith.
  rewrite e; apply: hops_next; rewrite -?e // => g.
  have a : n - 2 < n by arith. have b : n.-1 < n by arith.
  have /setP/(_ (Ordinal b)) := g (Ordinal a); rewrite [RHS]inE edges_heard; last by arith.
  by rewrite -val_eqE /=; arith.
by move=> l; rewrite connectionsE edges_ones.
Qed.
Example fewest_3 : 2 * 3 <= \sum_k #|\bigcup_(l < 1) @pattern 3 (circle 3) l k|.
Proof.
have n3 : 1 < #|'I_3| by rewrite card_ord.
have [c1 _ c3 _ _] := @circle_attains 3 isT; have [le _] := @fewest _ 1 _ n3 isT c1 c3.
by rewrite card_ord in le.
Qed.

(* Proposition 12.18 (Random). Token j is read by nobody else: *)
Definition unread (T : finType) p (A : nat -> T -> {set T}) j :=
  forall l k, l < p -> j \in A l k -> k = j.
Theorem one_unread (T : finType) p (A : nat -> T -> {set T}) j : 0 < p -> 1 < #|T| ->
  unread p A j -> ~ condition3 p A.
Proof.
move=> p0 /card_gt1P[a [b [_ _ ab]]] un [t f].
have [k kj] : exists k, k != j by have [<-|aj] := eqVneq a j; [exists b; rewrite eq_sym|exists a].
have only u i : j \in heard p A u i -> i = j.
  elim: u i => [|u IH] i; first by move/set1P.
  by case/heardP => i' + /IH e; rewrite e; apply: un; rewrite ltn_pmod.
by move: kj; rewrite (only t k) ?eqxx // f inE.
Qed.
Theorem two_unread (T : finType) p (A : nat -> T -> {set T}) j j' : j != j' ->
  unread p A j -> unread p A j' -> ~ condition2 p A.
Proof.
move=> jj' un un' [gamma perm path_g].
have uniq_g : uniq gamma by rewrite (perm_uniq perm) enum_uniq.
(* such a token can only be the last of the path *)
have last_of i : unread p A i -> index i gamma = (size gamma).-1.
  move=> uni; have ig : i \in gamma by rewrite (perm_mem perm) mem_enum.
  have lt : index i gamma < size gamma by rewrite index_mem.
  apply/eqP; rewrite eqn_leq; apply/andP; split; first by move: lt; arith.
  rewrite leqNgt; apply/negP => lt1; have lt2 : (index i gamma).+1 < size gamma by arith.
  have /existsP[l] := (sortedP i path_g) _ lt2; rewrite nth_index // => ik.
  have /eqP := uni l _ (ltn_ord l) ik; rewrite -[X in _ == X](nth_index i ig) nth_uniq //.
  by arith.
have e : index j gamma = index j' gamma by rewrite !last_of.
have jg x : x \in gamma by rewrite (perm_mem perm) mem_enum.
by move: jj'; rewrite -(nth_index j (jg j)) e nth_index // eqxx.
Qed.

(* n independent draws of r tokens out of n, all equally likely; token k reads itself and f k *)
Section Draws.
Variables n r : nat.
Definition draws := [set f : {ffun 'I_n -> {set 'I_n}} | [forall k, #|f k| == r]].
Definition drawn (f : {ffun 'I_n -> {set 'I_n}}) (l : nat) k := k |: f k.
Definition nobody (f : {ffun 'I_n -> {set 'I_n}}) := [set j | [forall k, (k == j) ||
  (j \notin f k)]].
Lemma nobodyP f j : reflect (unread 1 (drawn f) j) (j \in nobody f).
Proof.
rewrite inE; apply: (iffP forallP) => [no l k _|un k].
  by case/setU1P => [//|jf]; case/orP: (no k) => [/eqP|/negP].
by case: eqP => //= kj; apply/negP => jf; apply/kj/(un 0); rewrite // inE jf orbT.
Qed.
Lemma card_choices (F : 'I_n -> {set {set 'I_n}}) :
  #|[set f : {ffun 'I_n -> {set 'I_n}} | [forall k, f k \in F k]]| = \prod_k #|F k|.
Proof.
rewrite (_ : #|_| = #|family (fun k => mem (F k))|).
  by rewrite card_family foldrE big_map big_enum.
by apply: eq_card => f; rewrite inE; apply/forallP/familyP.
Qed.
(* the mean of #|nobody f| over all draws is n (1 - r/n)^(n - 1) *)
Theorem expected_unread : 1 < n ->
  (\sum_(f in draws) #|nobody f|) * n ^ n.-1 = n * (n - r) ^ n.-1 * #|draws|.
Proof.
move=> n1; have n0 : 0 < n by arith.
pose F j k := [set S : {set 'I_n} | (#|S| == r) && ((k == j) || (j \notin S))].
have cF j k : #|F j k| = if k == j then 'C(n, r) else 'C(n.-1, r).
  rewrite /F; case: eqP => _ /=.
    rewrite -[in RHS](card_ord n) -card_draws; apply: eq_card => S; by rewrite !inE andbT.
  have <- : #|~: [set j]| = n.-1 by rewrite cardsC1 card_ord.
  rewrite -cards_draws; apply: eq_card => S.
  by rewrite !inE subsetC sub1set inE andbC.
have all : #|draws| = 'C(n, r) ^ n.
  rewrite (_ : draws = [set f : {ffun 'I_n -> {set 'I_n}} | [forall k,
    f k \in [set S : {set 'I_n} | #|S| == r]]]).
    by rewrite card_choices card_draws card_ord prod_nat_const card_ord.
  by apply/setP => f; rewrite !inE; apply: eq_forallb => k; rewrite inE.
have -> : \sum_(f in draws) #|nobody f| = \sum_j \prod_k #|F j k|.
  under eq_bigr do rewrite -sum1_card big_mkcond.
  rewrite exchange_big; apply: eq_bigr => j _; rewrite -card_choices -sum1_card -big_mkcondr.
  apply: eq_bigl => f; rewrite !inE; apply/andP/forallP => [[/forallP c /forallP no] k|c].
    by rewrite inE c no.
  by split; apply/forallP => k; have := c k; rewrite inE => /andP[].
rewrite (eq_bigr (fun _ => 'C(n, r) * 'C(n.-1, r) ^ n.-1)) => [|j _]; last first.
  rewrite (bigD1 j) //= cF eqxx; congr (_ * _); rewrite (eq_bigr (fun _ => 'C(n.-1, r))).
    by rewrite prod_nat_const cardC1 card_ord.
  by move=> k /negbTE kj; rewrite cF kj.
have power : 'C(n, r) ^ n = 'C(n, r) * 'C(n, r) ^ n.-1 by rewrite -expnS prednK.
rewrite sum_nat_const card_ord all power.
rewrite -!mulnA; congr (_ * _); rewrite [RHS]mulnCA; congr (_ * _).
by rewrite -!expnMn mulnC mul_bin_down.
Qed.
End Draws.
Example random_2 : (\sum_(f in draws 2 1) #|nobody f|) * 2 ^ 1 = 2 * 1 ^ 1 * #|draws 2 1|.
Proof. exact: (@expected_unread 2 1 isT). Qed.
