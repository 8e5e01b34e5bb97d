(* Pages 10 and 11: What it costs to be sharp (Theorems 10.3 and 10.7 in part, Proposition 10.11), What is
   enough (Proposition 11.4 in part) *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
Require Import definitions logarithmic_dimension.
Import FullRank.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 10.11 *)
Module Rank.
Section Rank.
Variables (F : rcfType) (ex : F -> F) (n : nat).
Hypotheses (ex_gt0 : forall x, 0 < ex x) (exD : forall x y, ex (x + y) = ex x * ex y)
  (ex_mono : forall x y, x <= y -> ex x <= ex y).
(* ex is a positive, increasing function with ex (x + y) = ex x ex y. *)
Variables (L : 'M[F]_n) (pi : {perm 'I_n}) (T : F).
Hypotheses gap : forall i j, j != pi i -> T <= L i (pi i) - L i j.
(* Proposition 10.11 (Full rank): the least singular value. *)
Theorem sigma_min (x : 'rV[F]_n) :
  (1 - (n - 1)%:R * ex (- T) *+ 2) * norm x <= norm (x *m (softmax_rows ex L)^T).
Proof.
have s0 i : 0 < \sum_l ex (L i l).
  by rewrite (bigD1 i) //= ltr_paddr // sumr_ge0 // => l _; exact: ltW.
apply: (full_rank (pi := pi)) => [|i j|i|i j ji].
- exact: ltW.
- by rewrite softmax_rowsE divr_ge0 ?ltW.
- under eq_bigr do rewrite softmax_rowsE.
  by rewrite -mulr_suml divff // gt_eqF.
rewrite !softmax_rowsE [X in _ <= X]mulrA ler_wpmul2r ?invr_ge0 ?(ltW (s0 i)) // -exD; apply: ex_mono.
by rewrite addrC ler_subr_addl addrC -ler_subr_addl gap.
Qed.
(* If this is positive, A has rank n. *)
Theorem rank_n : 0 < 1 - (n - 1)%:R * ex (- T) *+ 2 -> \rank (softmax_rows ex L) = n.
Proof.
move=> pos; apply/eqP; rewrite -mxrank_tr -[_ == n]/(row_free _) -kermx_eq0;
  apply/eqP/row_matrixP => i.
have : row i (kermx (softmax_rows ex L)^T) *m (softmax_rows ex L)^T = 0 by rewrite -row_mul mulmx_ker row0.
move: (row i _) => x xA; have := sigma_min x; rewrite xA /norm {2}/sqnorm big_ord1 big1 => [|c _]; last by
  rewrite mxE expr0n.
rewrite sqrtr0 pmulr_rle0 // => x0; rewrite row0; apply: sq_eq0; rewrite sqnorm_dot -norm_sq.
have -> : norm x = 0 by apply: le_anti; rewrite x0 sqrtr_ge0.
by rewrite expr0n.
Qed.
(* No matrix of rank below n is closer than the least singular value s. *)
Theorem nearest (N : 'M[F]_n) s : (\rank N < n)%N -> (forall x : 'rV[F]_n, s * norm x <= norm (x
  *m (softmax_rows ex L)^T)) ->
  exists2 x : 'rV[F]_n, x != 0 & s * norm x <= norm (x *m (softmax_rows ex L - N)^T).
Proof.
move=> rN low; have : kermx N^T != 0 by rewrite -mxrank_eq0 mxrank_ker mxrank_tr -lt0n subn_gt0.
case/rowV0Pn => x /sub_kermxP xN x0; exists x => //.
by rewrite linearB /= mulmxBr xN subr0.
Qed.
End Rank.
End Rank.

(* Proposition 11.4 (a), second bound *)
Module Bits.
(* Proposition 11.4 *)
Section Bits.
Variables (F : realFieldType) (n k d p : nat) (B : finType) (val : B -> F).
(* p bits a coordinate *)
Hypotheses (bits : #|B| = (2 ^ p)%N) (k1 : (0 < k)%N) (kn : (k < n)%N).
Definition code := {ffun 'I_n * 'I_d -> B}.
Definition logit (Q K : code) i j := dot (\row_c val (Q (i, c))) (\row_c val (K (j, c))).
Definition meets T (Q K : code) (S : {ffun 'I_n -> {set 'I_n}}) :=
  forall i j l, j \in S i -> l \notin S i -> T <= logit Q K i j - logit Q K i l.
Hypotheses serves : forall S : {ffun 'I_n -> {set 'I_n}}, (forall i, #|S i| = k) -> exists T Q K,
  0 < T /\ meets T Q K S.

Lemma card_code : #|{: code}| = (2 ^ (n * d * p))%N.
Proof. by rewrite card_ffun bits card_prod !card_ord -expnM mulnC. Qed.
Lemma same (T T' : F) (Q K : code) (S S' : {ffun 'I_n -> {set 'I_n}}) : 0 < T -> 0 < T' ->
  (forall i, #|S i| = k) -> (forall i, #|S' i| = k) ->
  meets T Q K S -> meets T' Q K S' -> S = S'.
Proof.
move=> T0 T0' Sk Sk' m m'; apply/ffunP => i; apply/eqP; rewrite eqEcard Sk Sk' leqnn andbT.
apply/subsetP => j jS; apply/negPn/negP => jS'.
have [l lS' lS] : exists2 l, l \in S' i & l \notin S i.
  apply/subsetPn; apply/negP => sub; have /eqP e : S' i == S i by rewrite eqEcard sub Sk Sk'
    leqnn.
  by rewrite e jS in jS'.
have := lt_le_trans T0 (m _ _ _ jS lS); have := lt_le_trans T0' (m' _ _ _ lS' jS').
by rewrite !subr_gt0 => a b; have := lt_trans a b; rewrite ltxx.
Qed.
(* Proposition 11.4 (Bits) (a): different patterns have different (Q, K). *)
Theorem patterns_need : ('C(n, k) ^ n <= 2 ^ (2 * n * (d * p)))%N.
Proof.
pose rows (_ : 'I_n) := [pred S : {set 'I_n} | #|S| == k].
have <- : #|family rows| = ('C(n, k) ^ n)%N.
  rewrite card_family foldrE big_map big_enum (eq_bigr (fun _ => 'C(n, k))) => [|i _].
    by rewrite prod_nat_const card_ord.
  by have := card_draws [finType of 'I_n] k; rewrite card_ord cardsE.
have ex (S : {ffun 'I_n -> {set 'I_n}}) : exists QK : code * code, S \in family rows -> exists2
  T, 0 < T & meets T QK.1 QK.2 S.
  have [/familyP Sk|Sk] := boolP (S \in family rows).
    by have [i|T [Q [K [T0 m]]]] := serves (S := S); [exact/eqP/Sk | exists (Q, K) => _; exists
      T].
  have [Q _] : exists Q : code, true.
    have : (0 < #|{: code}|)%N by rewrite card_code expn_gt0.
    by case/card_gt0P => Q _; exists Q.
  by exists (Q, Q).
have [f fP] := fin_all_exists ex.
have inj : {in family rows &, injective f}.
  move=> S S' SF SF' e; have [T T0 m] := fP S SF; have [T' T0' m'] := fP S' SF'; rewrite -e in m'.
  move/familyP: SF => Sk; move/familyP: SF' => Sk'.
  by apply: (same T0 T0' _ _ m m') => i; apply/eqP; [exact: Sk | exact: Sk'].
rewrite -(card_in_imset inj); apply: leq_trans (max_card _) _.
by rewrite card_prod !card_code -expnD addnn -mul2n !mulnA.
Qed.
(* d p >= (k / 2) log2 (n / k) *)
(* d p >= (k/2) log_2 (n/k), as natural numbers: n^k <= 2^(2 d p) k^k. *)
Theorem bits_patterns : (n ^ k <= 2 ^ (2 * (d * p)) * k ^ k)%N.
Proof.
have n0 : (0 < n)%N := ltn_trans k1 kn.
have C : ('C(n, k) <= 2 ^ (2 * (d * p)))%N.
  rewrite -(@leq_exp2r _ _ n) //; apply: leq_trans patterns_need _; rewrite -expnM leq_exp2l //.
  by rewrite mulnAC.
apply: leq_trans (_ : 'C(n, k) * k ^ k <= _)%N; last by rewrite leq_mul2r C orbT.
(* (n / k)^k <= C(n, k) *)
have step (m : nat) : (m <= k)%N -> (expn n m * k ^_ m <= n ^_ m * expn k m)%N.
  elim: m => // m IH mk; rewrite !ffactnSr !expnSr mulnACA [(n ^_ m * _ * _)%N]mulnACA.
  apply: leq_mul; first exact: IH (ltnW mk).
  by rewrite mulnBr mulnBl leq_sub2l // [(n * m)%N]mulnC leq_mul2l ltnW ?orbT.
have := step k (leqnn k); rewrite ffactnn -bin_ffact mulnAC.
by rewrite leq_pmul2r ?fact_gt0.
Qed.
End Bits.
End Bits.

(* Theorems 10.3 and 10.7, in part *)
Module Keys.
Section Keys.
Variable R : realFieldType.
(* Query q prefers the keys of S to all others, with gap T. *)
Definition meets d (I : finType) (key : I -> 'rV[R]_d) (S : {set I}) T q :=
  forall j l, j \in S -> l \notin S -> T <= dot q (key j) - dot q (key l).

(* Theorem 10.3, equal weights: 2k dimensions are enough for all patterns with at most k columns
  a row. *)
Section Moment.
Variables (n k : nat) (t : 'I_n -> R).
Hypotheses t_inj : injective t.
Definition curve (j : 'I_n) : 'rV[R]_(2 * k) := \row_(i < 2 * k) t j ^+ i.+1.

Theorem moment (S : {set 'I_n}) T : (#|S| <= k)%N -> exists q, meets curve S T q.
Proof.
move=> Sk; pose g : {poly R} := \prod_(j in S) ('X - (t j)%:P); pose f := g ^+ 2.
have size_f : (size f <= (2 * k).+1)%N.
  rewrite -[X in (X <= _)%N]prednK ?size_exp; last by rewrite lt0n size_poly_eq0 expf_neq0 //
    monic_neq0 // monic_prod_XsubC.
  by rewrite /g -big_enum /= -(big_map t predT (fun x => 'X - x%:P)) size_prod_XsubC size_map
    -cardE mulnC ltnS leq_mul2l Sk orbT.
have gt x : g.[x] = \prod_(j in S) (x - t j) by rewrite horner_prod; apply: eq_bigr => j _;
  rewrite hornerXsubC.
have f0 j : j \in S -> f.[t j] = 0.
  by move=> jS; rewrite /f horner_exp gt (bigD1 j) //= subrr mul0r expr0n.
have f_pos l : l \notin S -> 0 < f.[t l].
  move=> lS; rewrite /f horner_exp exprn_even_gt0 //= gt; apply/prodf_neq0 => j jS.
  by rewrite subr_eq0 (inj_eq t_inj); apply: contraNneq lS => ->.
have horner_f x : f.[x] = f`_0 + \sum_(i < 2 * k) f`_i.+1 * x ^+ i.+1.
  by rewrite (horner_coef_wide _ size_f) big_ord_recl expr0 mulr1.
pose C := \sum_(l | l \notin S) `|T| / f.[t l].
exists (\row_(i < 2 * k) - (C * f`_i.+1)) => j l jS lS.
have dotE i : dot (\row_(i < 2 * k) - (C * f`_i.+1)) (curve i) = C * (f`_0 - f.[t i]).
  rewrite horner_f opprD addrA subrr add0r mulrN mulr_sumr -sumrN; apply: eq_bigr => m _.
  by rewrite !mxE mulNr mulrA.
rewrite !dotE -mulrBr f0 // subr0 opprB addrC subrK.
apply: le_trans (ler_norm T) _; rewrite -ler_pdivr_mulr ?f_pos // /C (bigD1 l) //= ler_addl.
by apply: sumr_ge0 => i /andP[iS _]; rewrite divr_ge0 // ltW // f_pos.
Qed.
End Moment.

Lemma side d (I : finType) (key : I -> 'rV[R]_d) (c : I -> R) :
  \sum_i c i = 0 -> (forall q, \sum_i c i * dot q (key i) = 0) -> (exists i, c i != 0) ->
  [set i | 0 < c i] != set0 /\ forall T q, 0 < T -> ~ meets key [set i | 0 < c i] T q.
Proof.
move=> sum_c dot_c [i0 ci0]; have some (b : I -> R) : \sum_i b i = 0 -> b i0 != 0 -> exists i, 0
  < b i.
  move=> sum_b bi0; apply/existsP; apply: contraNT bi0 => /existsPn neg.
  have : \sum_i - b i = 0 by rewrite sumrN sum_b oppr0.
  by move/psumr_eq0P => /(_ _ i0 isT) /eqP; rewrite oppr_eq0; apply=> i _; rewrite oppr_ge0 leNgt
    neg.
have [p cp] := some _ sum_c ci0; split=> [|T q T0 pref]; first by apply/set0Pn; exists p; rewrite
  inE.
have [l] : exists l, 0 < - c l by apply: some; rewrite ?sumrN ?sum_c ?oppr0 ?oppr_eq0.
rewrite oppr_gt0 => cl; case: (@arg_minP _ _ _ p [pred i | 0 < c i] (fun i => dot q (key i)) cp)
  => j /= cj jmin.
have term i : 0 <= c i * (dot q (key i) - dot q (key j)).
  have [ci|ci] := ltP 0 (c i); first by rewrite mulr_ge0 ?subr_ge0 ?jmin // ltW.
  rewrite mulr_le0 // subr_le0 -subr_ge0; apply: le_trans (ltW T0) (pref j i _ _); rewrite inE //
    -leNgt //.
have : \sum_i c i * (dot q (key i) - dot q (key j)) = 0.
  by under eq_bigr do rewrite mulrBr; rewrite sumrB dot_c -mulr_suml sum_c mul0r subrr.
move/psumr_eq0P => /(_ (fun i _ => term i) l isT)/eqP; rewrite mulf_eq0 (lt_eqF cl) subr_eq0 =>
  /eqP eqd.
have := pref j l; rewrite eqd subrr !inE cj ltNge (ltW cl) => /(_ isT isT).
by rewrite leNgt T0.
Qed.

(* Theorem 10.7: among d + 2 keys in R^d (so 2k + 1 in R^(2k-1)) one side of a Radon partition,
   of at most half of the keys, is never preferred to the rest. *)
Theorem radon d (key : 'I_d.+2 -> 'rV[R]_d) :
  exists S : {set 'I_d.+2}, [/\ S != set0, (#|S|.*2 <= d.+2)%N & forall T q, 0 < T -> ~ meets key
    S T q].
Proof.
pose M : 'M[R]_(d.+2, d + 1) := row_mx (\matrix_(i, j) key i 0 j) (const_mx 1).
have [c [c0 cM]] : exists c : 'rV[R]_d.+2, c != 0 /\ c *m M = 0.
  have : kermx M != 0 by rewrite -mxrank_eq0 mxrank_ker -lt0n subn_gt0 (leq_ltn_trans
    (rank_leq_col _)) // addn1.
  by case/rowV0Pn=> c /sub_kermxP cM c0; exists c.
have sum_c : \sum_i c 0 i = 0.
  transitivity ((c *m M) 0 (rshift d 0)); last by rewrite cM mxE.
  by rewrite mxE; apply: eq_bigr => i _; rewrite row_mxEr mxE mulr1.
have dot_c q : \sum_i c 0 i * dot q (key i) = 0.
  have cK : c *m (\matrix_(i, j) key i 0 j) = 0 by have := congr1 lsubmx cM; rewrite mul_mx_row
    row_mxKl linear0.
  transitivity ((c *m (\matrix_(i, j) key i 0 j) *m q^T) 0 0); last by rewrite cK mul0mx mxE.
  rewrite -mulmxA mxE; apply: eq_bigr => i _; congr (_ * _); rewrite dotC mxE.
  by apply: eq_bigr => j _; rewrite !mxE.
have [|P0 Pq] := side sum_c dot_c.
  by apply/existsP; apply: contraNT c0 => /existsPn z; apply/eqP/rowP => i; rewrite mxE;
    apply/eqP; rewrite -[_ == _]negbK z.
have [|||N0 Nq] := @side _ _ key (fun i => - c 0 i).
- by rewrite sumrN sum_c oppr0.
- by move=> q; under eq_bigr do rewrite mulNr; rewrite sumrN dot_c oppr0.
- by have /set0Pn[i] := P0; rewrite inE => ci; exists i; rewrite oppr_eq0 gt_eqF.
set Sp := [set i | _] in P0 Pq; set Sn := [set i | _] in N0 Nq.
have small : (#|Sp| + #|Sn| <= d.+2)%N.
  have SS : Sp :&: Sn = set0 by apply/setP => i; rewrite !inE oppr_gt0; case: ltgtP.
  by rewrite -cardsUI SS cards0 addn0; apply: leq_trans (max_card _) _; rewrite card_ord.
have half (S S' : {set 'I_d.+2}) : (#|S| + #|S'| <= d.+2 -> #|S| <= #|S'| -> #|S|.*2 <= d.+2)%N.
  by move=> le SS; apply: leq_trans le; rewrite -addnn leq_add2l.
have [le|lt] := leqP #|Sp| #|Sn|; first by exists Sp; split; [exact: P0 | exact: half le | exact:
  Pq].
by exists Sn; split; [exact: N0 | apply: half (ltnW lt); rewrite addnC | exact: Nq].
Qed.
End Keys.
End Keys.
